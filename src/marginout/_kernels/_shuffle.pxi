# An order of rows that is random but the same every time.
from libc.stdint cimport int64_t, uint64_t


cdef inline uint64_t next_random(uint64_t* state) noexcept nogil:
    """xorshift64*: the order of the sweeps is random but the same every time."""
    state[0] ^= state[0] >> 12
    state[0] ^= state[0] << 25
    state[0] ^= state[0] >> 27
    return state[0] * <uint64_t> 2685821657736338717


cdef inline void shuffle(int64_t* order, Py_ssize_t size, uint64_t* state) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef int64_t swap
    for i in range(size - 1, 0, -1):
        j = <Py_ssize_t> ((next_random(state) >> 11) % <uint64_t> (i + 1))
        swap = order[i]
        order[i] = order[j]
        order[j] = swap
