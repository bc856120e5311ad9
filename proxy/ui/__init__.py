"""The live page `/_ui`: running and recent requests in a browser, without a build step or external assets."""
