"""The sync shell: methods that block."""
