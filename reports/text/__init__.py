"""Words and numbers that terminal, page and figures share."""
