"""Healing of requests: fixes for what a model server or its chat template would reject or silently drop."""
