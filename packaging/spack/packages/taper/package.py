"""Spack's recipe. `spack repo add packaging/spack`, then, in the folder of the archive that `make dist` wrote
(which also writes this recipe with the archive's checksum), `spack install taper +mpi`."""

import os

from spack.package import *

try:  # where build systems are since Spack 1.0
    from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass


class Taper(CMakePackage, CudaPackage):
    """Tensors, tape-based automatic differentiation and neural networks in C, with PyTorch's names, and a Python
    package that runs PyTorch scripts unchanged."""

    url = f"file://{os.getcwd()}/taper_ml-0.1.0.tar.gz"
    manual_download = True

    license("BSD-3-Clause")

    version("0.1.0", sha256="0000000000000000000000000000000000000000000000000000000000000000")

    variant("python", default=True, description="The Python package and the taper command")
    variant("mpi", default=True, description="The engine for process groups over MPI")
    variant("images", default=True, description="PNG and JPEG files")
    # The library opens drivers and vendors' libraries when it runs, and compiles its kernels then: +cuda cuda_arch=80
    # and +rocm bring them.
    variant("rocm", default=False, description="ROCm's compiler and libraries, at run time")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    # cblas and LAPACK, with integers of 32 bits.
    depends_on("blas")
    depends_on("lapack")
    requires(
        "^[virtuals=blas] openblas~ilp64",
        "^[virtuals=blas] intel-oneapi-mkl~ilp64",
        "^[virtuals=blas] blis+cblas~ilp64",
        "^[virtuals=blas] amdblis+cblas~ilp64",
        "^[virtuals=blas] flexiblas",
        "^[virtuals=blas] cray-libsci",
        policy="one_of",
        msg="Taper calls cblas and LAPACK with integers of 32 bits",
    )

    depends_on("zlib-api")
    depends_on("libpng", when="+images")
    depends_on("jpeg", when="+images")
    depends_on("mpi", when="+mpi")

    with when("+python"):
        extends("python")
        depends_on("python@3.10:", type=("build", "link", "run"))
        depends_on("py-pip", type="build")
        depends_on("py-scikit-build-core@0.10:", type="build")
        depends_on("py-numpy", type="run")

    with when("+cuda"):
        depends_on("cuda@12:", type="run")
        depends_on("cudnn", type="run")
        for arch in CudaPackage.cuda_arch_values:
            depends_on(f"nccl+cuda cuda_arch={arch}", type="run", when=f"cuda_arch={arch}")

    with when("+rocm"):
        depends_on("hip", type="run")
        depends_on("rocblas", type="run")
        depends_on("miopen-hip", type="run")
        depends_on("rccl", type="run")

    generator("ninja")

    def cmake_args(self):
        """What this build stands on, by name: nothing is taken from the machine by chance."""
        blas = self.spec["lapack"].libs + self.spec["blas"].libs
        return [
            self.define("TAPER_BLAS_LIBRARIES", list(blas)),
            self.define("TAPER_MPICC", self.spec["mpi"].mpicc if self.spec.satisfies("+mpi") else "OFF"),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_PNG", self.spec.satisfies("~images")),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_JPEG", self.spec.satisfies("~images")),
        ]

    @run_after("install")
    def install_python(self):
        """The wheel, which brings its own copy of the library."""
        if not self.spec.satisfies("+python"):
            return
        os.environ["CMAKE_ARGS"] = " ".join(f'"{argument}"' for argument in self.cmake_args())
        with working_dir(self.stage.source_path):
            python(
                "-m",
                "pip",
                "install",
                "--no-deps",
                "--no-build-isolation",
                "--no-index",
                f"--prefix={self.prefix}",
                ".",
            )

    def setup_run_environment(self, env):
        """Where the job scripts find each other."""
        env.set("TAPER_PACKAGING", self.prefix.share.taper.packaging)
