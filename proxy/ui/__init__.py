"""The live page `/_ui`: what the workers do, for a browser, without a build step and without assets from elsewhere."""
