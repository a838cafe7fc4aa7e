"""The only network IO of the package: requests in, replies or failures out."""
