"""What this machine allows: what is here, what each thing is good for, and how to get the rest."""
