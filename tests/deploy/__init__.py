"""The deployment, end to end, and what it installs."""
