"""A part of the build, and of nothing else: setuptools' `build_py`, which also has the package compiled (`tools.ahead`).

``pip install .`` compiles for this processor.  What is unpacked from a source distribution, as ``python -m build`` does it, is
compiled for the levels of `codegen.host`, for it may go anywhere.  The wheel is then one for this platform, and any Python.
With ``TAPEGRAD_PORTABLE=1`` nothing is compiled, and the wheel is one for every platform (``py3-none-any``): it compiles where it is used.

setuptools loads this file by its path, as ``pyproject.toml`` says, without the package around it.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools.command.build_py import build_py


class BuildWithCode(build_py):
    """Copies the package, and compiles what it copied."""

    def run(self):
        super().run()
        if self.editable_mode:
            # It compiles when it is used.
            return
        file = Path(self.build_lib, "tapegrad", "codegen", "ahead.bin").absolute()
        file.unlink(missing_ok=True)
        if os.environ.get("TAPEGRAD_PORTABLE") == "1":
            return
        path = os.pathsep.join([str(Path(self.build_lib).absolute()), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-B", "-P", "-m", "tapegrad.tools.ahead", str(file), *(["--levels"] if Path("PKG-INFO").exists() else [])]
        ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE, text=True)
        if file.exists():
            self.distribution.get_command_obj("bdist_wheel").plat_name_supplied = True
        else:
            why = (ended.stderr.strip().splitlines() or [f"it ended with {ended.returncode}"])[-1]
            print(f"tapegrad: no machine code in this wheel, which compiles where it is used: {why}", file=sys.stderr)
