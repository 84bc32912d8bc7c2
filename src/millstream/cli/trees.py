"""A tree of stream paths, drawn incrementally from sorted names."""


class Tree:
    """Tracks which folders have been drawn."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def place(self, path: str) -> tuple[list[tuple[int, str]], tuple[int, str]]:
        """Return the new folders and the stream's own line, each as a depth and a label."""
        *folders, name = path.lstrip("/").split("/")
        shared = 0
        while shared < min(len(folders), len(self._open)) and folders[shared] == self._open[shared]:
            shared += 1
        self._open = folders
        new = [(depth, f"{folders[depth]}/") for depth in range(shared, len(folders))]
        return new, (len(folders), name)
