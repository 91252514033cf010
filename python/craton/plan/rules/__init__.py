"""Rewrite rules: each takes a plan and returns an equivalent, cheaper one."""
