/* Where the windows of fractional max pooling start, one text for every target: CPUs compile it as C, GPUs as part of
 * kernel text. Whoever includes it has defined EL, how a function in line is declared. */

/* Where window number i starts: PyTorch's sequence from one uniform sample per dim. The user may hand in samples of any
 * size, and what is no number: the window stays inside. */
EL int64_t window_start(double sample, int64_t i, int64_t in, int64_t out, int64_t pool) {
    if (i == out - 1) return in - pool;
    const double alpha = (double)(in - pool) / (double)(out - 1);
    const double s = sample > -1048576 && sample < 1048576 ? sample : 0;
    const int64_t start = (int64_t)(((double)i + s) * alpha) - (int64_t)(s * alpha);
    return start < 0 ? 0 : start < in - pool ? start : in - pool;
}

/* The dim (of depth, height and width) that sample i belongs to: sample 0 is the last dim's of two, and the first's of
 * three. */
EL int sampled_dim(int dims, int i) { return dims == 2 ? 2 - i : i; }
