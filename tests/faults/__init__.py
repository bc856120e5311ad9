"""Fault matrix: scripts of faulty servers and clients, and the test bench that runs them."""
