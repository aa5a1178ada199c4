"""The accuracy page: observed engines and published measurements against predictions."""
