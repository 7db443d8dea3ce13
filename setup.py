"""The compiled engine, which is optional: without a compiler the package is complete, and slower where it counts.

ATTNCLI_PURE=1 leaves it out, for the wheel of all platforms that have none of their own. Windows is one of these:
the kernel is written with the vector extensions of GCC and Clang, which Microsoft's compiler lacks.
"""

import os
import sys

from setuptools import Extension, setup

tile = Extension(
    "attncli.engine._tile",
    sources=["attncli/engine/_tile.c"],
    depends=["attncli/engine/types.inc", "attncli/engine/tile.inc"],
    extra_compile_args=["-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-g0"],
    py_limited_api=True,
    optional=True,
)
wanted = sys.platform != "win32" and os.environ.get("ATTNCLI_PURE", "") in ("", "0")
setup(
    ext_modules=[tile] if wanted else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if wanted else {},
)
