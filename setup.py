"""The packages, and the extensions: every Cython source there is; pyproject.toml says the rest."""

from glob import glob
from pathlib import Path
from runpy import run_path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command import build_ext, build_py, sdist

PACKAGES = ("core", "pipeline", "routerd", "shm", "workers")
CHECKOUT = ("bench",)  # runs in a checkout alone: no wheel has it
HARDENED = ["-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
COMPILE = ["-O2", "-g1", "-std=gnu11", "-Wno-unreachable-code", *HARDENED]
# The loops on a message's way are short and branchy: vectorised copies only make them longer.
HOT = {"core": ["-fno-tree-vectorize"], "workers": ["-fno-tree-vectorize"]}
ALSO = {"bench": ["workers"]}  # whose headers it includes, beside its own and those of shm


def native(package: str) -> list[str]:
    """Return a package's headers, bodies and parts of Cython modules; not what Cython writes itself."""
    ends = ("h", "c", "pxd", "pxi")
    files = [file for end in ends for file in glob(f"{package}/**/*.{end}", recursive=True)]
    return [file for file in files if not Path(file).with_suffix(".pyx").exists()]


def extension(source: str) -> Extension:
    """Return the extension of a Cython source. Any header that it may include compiles it anew."""
    package = Path(source).parts[0]
    unit = Path(source).with_name("unity.c")  # the native code that the module calls, if it has any
    near = {package, "shm", *ALSO.get(package, ())}
    return Extension(
        source.removesuffix(".pyx").replace("/", "."),
        [source, *([str(unit)] if unit.exists() else [])],
        include_dirs=["."],
        define_macros=[("_GNU_SOURCE", "1")],
        depends=sorted(file for one in near for file in native(one)),
        extra_compile_args=[*COMPILE, *HOT.get(package, ())],
        extra_link_args=["-Wl,-z,relro,-z,now"],
    )


class BuildExt(build_ext.build_ext):
    """Compiles in place what the checkout runs, and elsewhere what a wheel has."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if not self.inplace:
            self.extensions = [one for one in self.extensions if not one.name.startswith(CHECKOUT)]


def note_commit(folder: str) -> None:
    """Write the commit into a package: `routerd version` tells it where there is no git."""
    version = "routerd/machine/version.py"
    Path(folder, version).with_name("commit").write_text(run_path(version)["commit"]() + "\n")


class BuildPy(build_py.build_py):
    """Copies Python modules, and adds the commit."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            note_commit(self.build_lib)


class Sdist(sdist.sdist):
    """Packs the sources, and adds the commit."""

    def make_release_tree(self, base_dir: str, files: Any) -> None:
        super().make_release_tree(base_dir, files)
        note_commit(base_dir)


SOURCES = [source for name in (*PACKAGES, *CHECKOUT) for source in glob(f"{name}/**/*.pyx", recursive=True)]

setup(
    ext_modules=[extension(source) for source in sorted(SOURCES)],
    packages=find_packages(include=[f"{package}*" for package in PACKAGES]),
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy, "sdist": Sdist},
)
