"""Files of others, byte for byte as published; README.md says which and from where."""
