"""The async shell: methods that are awaited. Its files have the names of their twins in sync/."""
