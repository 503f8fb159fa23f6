"""The workspaces in which a finished tape is replayed: as many as are in use at the same time."""

class Pool:
    """Workspaces of one tape."""

    def __init__(self, tape):
        self.tape = tape
        self.pool = []

    def take(self):
        """A workspace that nothing else uses."""
        try:
            return self.pool.pop()
        except IndexError:
            # Imported with the compiled code, which is loaded when something is first replayed.
            from .workspace import Workspace

            return Workspace(self.tape)

    def give(self, workspace):
        """Give a workspace back."""
        self.pool.append(workspace)
