"""What others measured and reported in public, beside what the verbs answer to the same."""
