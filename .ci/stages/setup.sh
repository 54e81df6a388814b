# Prerequisites of the other stages: tools, libraries, and the variables by which tests find them.
step "setup"
if ! has cargo; then
    echo "cargo is needed: install Rust by rustup" >&2
    exit 1
fi
for component in rustfmt clippy; do
    cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1 || rustup component add "$component"
done
if has apt-get && [ "$(id -u)" = 0 ]; then
    # Tests compile programs of C, C++ and Fortran. Some contenders of the benches are C programs: they are built here,
    # too, if Debian has their compilers and libraries.
    if ! { has clang && has c++ && has gfortran && has valgrind && has pkg-config && pkg-config --exists starpu-1.3; } 2>/dev/null; then
        from_network apt-get update -qq && from_network apt-get install -y -qq --no-install-recommends \
            gcc g++ gfortran clang libomp-dev libstarpu-dev pkg-config valgrind >/dev/null || echo "contenders not installed: skipped"
    fi
    # Kernels are run by OpenCL on the CPU, and compiled for GPUs by NVRTC and hipRTC.
    from_network apt-get update -qq && from_network apt-get install -y -qq --no-install-recommends \
        pocl-opencl-icd ocl-icd-libopencl1 opencl-c-headers oclgrind libamdhip64-5 libhiprtc-builtins5 python3-venv >/dev/null
    # Clusters, over Debian's Open MPI, which stays the default, and its MPICH.
    { has mpicc && has mpirun && has mpirun.mpich; } ||
        from_network apt-get install -y -qq --no-install-recommends libclang-dev libopenmpi-dev openmpi-bin libmpich-dev mpich >/dev/null
fi
python=target/python
[ -x "$python/bin/pip" ] || python3 -m venv --clear "$python"
# NVIDIA's compiler; NumPy, for the test that passes its arrays to tasks and back; and what the Python package's tests
# need.
"$python/bin/python" -c "import numpy, nvidia, numba, scipy, cffi, pytest, maturin" 2>/dev/null ||
    from_network "$python/bin/pip" install --quiet nvidia-cuda-nvrtc==13.0.88 numpy maturin numba scipy cffi pytest
# Fetched now, so that the time of the first build step does not include the network.
from_network cargo fetch --quiet --locked
export THALWEG_PYTHON="$PWD/$python/bin/python"
nvrtc=$(dirname "$(find "$PWD/$python" -name 'libnvrtc.so.*' | head -n 1)")
export LD_LIBRARY_PATH="$nvrtc${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export THALWEG_REQUIRE=opencl,nvrtc,hiprtc,standin,numpy,oclgrind,gfortran
export POCL_DEVICES="pthread pthread" # two devices, so that one can copy to the other
