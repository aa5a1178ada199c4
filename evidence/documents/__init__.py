"""Pages of docs/ that are written from code: hosts, scenario fields, command line."""
