"""The packages, and the extensions: every Cython source there is; pyproject.toml says the rest.

A wheel has `routerd`, and in its folder `lib` all that other distributions could have as well: our packages with common
names, and the AMQP engine, which is compiled for this router alone. `routerd/__init__.py` finds them there.
"""

import os
import shutil
import sys
from glob import glob
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from runpy import run_path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command import build_ext, build_py, egg_info, install_lib, sdist
from setuptools.modified import newer_group

PACKAGES = ("core", "pipeline", "routerd", "shm", "workers")
ENGINE = "python-qpid-proton"
OUTSIDE = ("pyspark_routerd", "routerd")  # what a wheel adds to the modules of its environment
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
    """Compiles in place what the checkout runs, and elsewhere what a wheel has, with all CPUs."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        if not self.inplace:
            self.extensions = [one for one in self.extensions if not one.name.startswith(CHECKOUT)]

    def build_extension(self, ext: Extension) -> None:
        """Compile an extension, unless what is compiled in place is newer than every source: a wheel takes that."""
        here = self.get_ext_filename(ext.name)
        if self.force or newer_group([*ext.sources, *ext.depends], here):
            super().build_extension(ext)
        else:
            self.mkpath(str(Path(self.get_ext_fullpath(ext.name)).parent))
            self.copy_file(here, self.get_ext_fullpath(ext.name))


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


class InstallLib(install_lib.install_lib):
    """Puts into a wheel's `routerd/lib` what stands at the top of a checkout, and the engine."""

    def install(self) -> list[str]:
        files = super().install()
        lib = Path(self.install_dir, "routerd", "lib")
        lib.mkdir()
        for name in PACKAGES:
            if name not in OUTSIDE:
                shutil.move(Path(self.install_dir, name), lib)
        copy_engine(lib)
        return files


def copy_engine(lib: Path) -> None:
    """Copy the installed engine, and what tells its version and its authors, but not what pip notes of it."""
    try:
        engine = distribution(ENGINE)
    except PackageNotFoundError:
        sys.exit(f"{ENGINE} is missing, and a wheel has it built in: install it with .ci/engine install PYTHON")
    for file in engine.files or ():
        if file.parts[0] != ".." and file.suffix != ".pyc" and file.name not in ("RECORD", "INSTALLER", "REQUESTED"):
            place = lib / file
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(engine.locate_file(file), place)


class EggInfo(egg_info.egg_info):
    """Names as modules of this distribution those that a wheel has at the top."""

    def run(self) -> None:
        super().run()
        Path(self.egg_info, "top_level.txt").write_text("\n".join(OUTSIDE) + "\n")


class Sdist(sdist.sdist):
    """Packs the sources, and adds the commit."""

    def make_release_tree(self, base_dir: str, files: Any) -> None:
        super().make_release_tree(base_dir, files)
        note_commit(base_dir)


SOURCES = [source for name in (*PACKAGES, *CHECKOUT) for source in glob(f"{name}/**/*.pyx", recursive=True)]

setup(
    ext_modules=[extension(source) for source in sorted(SOURCES, reverse=True)],  # those that take longest come first
    packages=find_packages(include=[f"{package}*" for package in PACKAGES]),
    cmdclass={
        "build_ext": BuildExt,
        "build_py": BuildPy,
        "egg_info": EggInfo,
        "install_lib": InstallLib,
        "sdist": Sdist,
    },
)
