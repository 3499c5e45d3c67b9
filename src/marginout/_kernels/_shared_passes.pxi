# What passes over CSR rows share: vectors of four problems, and ranges of rows for threads.
include "_csr.pxi"

cdef extern from "_simd.h":
    ctypedef void cloned_void
    ctypedef void inlined_void
    ctypedef double quad
    int QUAD
    quad load_quad(const double* p, int lanes) noexcept nogil
    void store_quad(double* p, int lanes, quad q) noexcept nogil

cdef double* ZEROS = [0.0, 0.0, 0.0, 0.0]


cdef Py_ssize_t first_row(const index_t[::1] indptr, Py_ssize_t part, Py_ssize_t parts) noexcept nogil:
    """The first row of a part when the non-zeros are shared out evenly."""
    cdef Py_ssize_t low = 0, high = indptr.shape[0] - 1, mid
    cdef double target = (<double> indptr[high]) * part / parts
    if part == parts:
        return high
    while low < high:
        mid = (low + high) // 2
        if indptr[mid] < target:
            low = mid + 1
        else:
            high = mid
    return low
