"""Configurations of coding agents for the proxy: each one's configuration as data, and how it gets into files that
exist.

Nothing here touches a file, asks a server or starts a program; `commands` does.
"""
