"""0-10 connections, as rules and filters see them."""
