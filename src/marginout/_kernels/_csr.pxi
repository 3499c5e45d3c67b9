# How a kernel finds the rows of X: values of either width, indices of either width.
from libc.stdint cimport int32_t, int64_t

ctypedef fused value_t:
    float
    double

ctypedef fused index_t:
    int32_t
    int64_t
