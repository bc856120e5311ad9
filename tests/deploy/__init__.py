"""End-to-end tests of the deployment, and checks of the locked packages."""
