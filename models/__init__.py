"""The model: engines on hosts, predictions of a node, and fleets, plans and bills made of them."""
