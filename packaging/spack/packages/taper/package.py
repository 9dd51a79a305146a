"""Spack's recipe: `spack repo add packaging/spack`, then `spack install taper +python`. The archive is given by hand, for it is on no server."""
from spack.package import *


class Taper(CMakePackage):
    """Tensors, tape-based automatic differentiation and neural networks in C, and a Python module that runs PyTorch scripts unchanged."""

    url = "file:///taper-0.1.0.tar.gz"
    manual_download = True

    license("BSD-3-Clause")

    version("0.1.0")

    variant("python", default=True, description="The Python package and the taper command")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("blas")
    depends_on("lapack")
    depends_on("openblas threads=openmp", when="^[virtuals=blas] openblas")
    depends_on("zlib-api")
    depends_on("libpng")
    depends_on("jpeg")
    depends_on("python@3.10:", when="+python")
    depends_on("py-pip", type="build", when="+python")
    depends_on("py-scikit-build-core@0.10:", type="build", when="+python")
    extends("python", when="+python")

    generator("ninja")

    def cmake_args(self):
        return [self.define("TAPER_WERROR", False)]

    @run_after("install")
    def install_python(self):
        """The wheel, which brings its own copy of the library."""
        if self.spec.satisfies("+python"):
            pip = which("python3")
            pip("-m", "pip", "install", "--no-deps", "--no-build-isolation", "--prefix", self.prefix, ".")
