/* The short-time Fourier transform and its inverse, composed of framing, windowing and the transforms along frames. */
#include "ops/bag.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"
#include <math.h>

/* What both directions share, with defaults filled in. */
typedef struct frames {
    int64_t n_fft, hop, window_length;
} frames;

static bool read_frames(frames *f, int64_t n_fft, int64_t hop_length, int64_t win_length) {
    *f = (frames){n_fft, hop_length == TP_NONE ? n_fft / 4 : hop_length, win_length == TP_NONE ? n_fft : win_length};
    if (n_fft < 1) return tpi_refuse(TP_ERR_VALUE, "argument 'n_fft': expected at least 1, got %lld", (long long)n_fft);
    if (f->hop < 1) return tpi_refuse(TP_ERR_VALUE, "argument 'hop_length': expected at least 1, got %lld", (long long)f->hop);
    return (f->window_length >= 1 && f->window_length <= n_fft) ||
           tpi_refuse(TP_ERR_VALUE, "argument 'win_length': expected 1 to n_fft = %lld, got %lld", (long long)n_fft, (long long)f->window_length);
}

/* The window over a whole frame, zeros around it; ones in the real dtype of `like` when there is none and all of the frame is used: NULL. */
static bool read_window(tpi_bag *bag, const frames *f, tp_tensor *window, const tp_tensor *like, tp_tensor **out) {
    *out = NULL;
    if (window && (window->ndim != 1 || window->shape[0] != f->window_length))
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'window': expected 1 dimension of size win_length = %lld, got shape %s", (long long)f->window_length,
                          tpi_shape_text(tpi_shape(window)));
    if (!window && f->window_length == f->n_fft) return true;
    if (!window) window = tpi_put(bag, tpo_ones(TP_INTS(f->window_length), tpi_dtype_to_real((tp_dtype)like->dtype), tpi_device(like)));
    int64_t left = (f->n_fft - f->window_length) / 2, pad[2] = {left, f->n_fft - f->window_length - left};
    *out = f->window_length == f->n_fft ? window : tpi_put(bag, tpo_constant_pad_nd(window, tp_ints_view(pad, 2), tp_int(0)));
    return *out != NULL;
}

static tp_tensor *padded(tpi_bag *bag, tp_tensor *x, int64_t each, const char *mode) { /* x: (batch, length) */
    tp_tensor *deep = tpi_put(bag, tpo_unsqueeze(x, 0));
    tp_tensor *wide = deep ? tpi_put(bag, tpo_pad(deep, TP_INTS(each, each), mode, TP_NO_FLOAT)) : NULL;
    return tpi_put(bag, tpo_squeeze_dim(wide, 0));
}

/* onesided, return_complex: true, false, or not given (-1). */
tp_tensor *tpi_compose_stft(tp_tensor *self, int64_t n_fft, int64_t hop_length, int64_t win_length, tp_tensor *window, bool center, const char *pad_mode,
                            bool normalized, int64_t onesided, int64_t return_complex) {
    frames f;
    if (!read_frames(&f, n_fft, hop_length, win_length)) return NULL;
    if (self->ndim != 1 && self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected 1 or 2 dimensions, got shape %s", tpi_shape_text(tpi_shape(self)));
    bool phased = tp_dtype_is_complex((tp_dtype)self->dtype) || (window && tp_dtype_is_complex((tp_dtype)window->dtype));
    if (return_complex == TP_NONE && !phased)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'return_complex': stft of real inputs needs it; expected true or false, got nothing");
    bool half = onesided == TP_NONE ? !phased : onesided != 0;
    if (half && phased) return tpi_fail(TP_ERR_RUNTIME, "argument 'onesided': cannot have onesided output if window or input is complex");
    tpi_bag bag = {0};
    tp_tensor *shaped, *x = self->ndim == 1 ? tpi_put(&bag, tpo_unsqueeze(self, 0)) : self;
    if (center) x = padded(&bag, x, n_fft / 2, pad_mode);
    if (!x || !read_window(&bag, &f, window, self, &shaped)) return tpi_empty_bag(&bag, NULL);
    if (x->shape[1] < n_fft)
        return tpi_empty_bag(&bag, tpi_fail(TP_ERR_RUNTIME, "argument 'n_fft': expected at most the (padded) length %lld of the input, got %lld",
                                            (long long)x->shape[1], (long long)n_fft));
    tp_tensor *cut = tpi_put(&bag, tpo_unfold(x, -1, n_fft, f.hop));
    if (shaped) cut = tpi_put(&bag, tpo_mul(TP_OPERAND(cut), TP_OPERAND(shaped)));
    const char *norm = normalized ? "ortho" : "backward";
    tp_tensor *spectrum = tpi_put(&bag, half ? tpo_fft_rfft(cut, TP_NONE, -1, norm) : tpo_fft_fft(cut, TP_NONE, -1, norm));
    tp_tensor *out = tpi_put(&bag, tpo_transpose(spectrum, 1, 2));
    if (self->ndim == 1) out = tpi_put(&bag, tpo_squeeze_dim(out, 0));
    bool complex_result = return_complex == TP_NONE || return_complex;
    return tpi_empty_bag(&bag, complex_result ? tpi_retain(out) : tpo_view_as_real(out));
}

/* Frames (batch, count, n_fft) laid over each other, hop apart. */
static tp_tensor *overlap_add(tpi_bag *bag, tp_tensor *x, const frames *f, int64_t length) {
    return x ? tpi_put(bag, tpo_unfold_backward(x, TP_INTS(x->shape[0], length), 1, f->n_fft, f->hop)) : NULL;
}

/* The sum of squared windows that covers each place: what the overlapped frames are divided by. */
static tp_tensor *envelope_of(tpi_bag *bag, tp_tensor *window, const frames *f, int64_t count, int64_t length, const tp_tensor *like) {
    tp_tensor *w = window ? window : tpi_put(bag, tpo_ones(TP_INTS(f->n_fft), tpi_dtype_to_real((tp_dtype)like->dtype), tpi_device(like)));
    tp_tensor *square = tpi_put(bag, tpo_mul(TP_OPERAND(w), TP_OPERAND(w)));
    return overlap_add(bag, square ? tpi_put(bag, tpo_expand(square, TP_INTS(1, count, f->n_fft), false)) : NULL, f, length);
}

static bool covers(tp_tensor *envelope) { /* no place is left without a window */
    if (tpi_device(envelope).type == TP_META) return true;
    tp_tensor *here = tpi_on_host(envelope);
    bool all = here;
    for (int64_t i = 0; all && i < here->numel; i++) {
        tpi_c128 v = tpi_param_of(tpi_load_scalar(here->data + i * (int64_t)tpi_itemsize(here), (tp_dtype)here->dtype), TPI_C128).c128;
        all = hypot(v.re, v.im) > 1e-11;
    }
    tpi_release(here);
    return all;
}

/* x (batch, length of all frames) cut to the signal: from the middle of the first frame on, `length` elements or to the middle of the last. */
static tp_tensor *signal_part(tpi_bag *bag, tp_tensor *x, int64_t start, int64_t end) {
    return tpi_put(bag, tpo_narrow(x, 1, start, (end < x->shape[1] ? end : x->shape[1]) - start));
}

tp_tensor *tpi_compose_istft(tp_tensor *self, int64_t n_fft, int64_t hop_length, int64_t win_length, tp_tensor *window, bool center, bool normalized,
                             int64_t onesided, int64_t length, bool return_complex) {
    frames f;
    if (!read_frames(&f, n_fft, hop_length, win_length)) return NULL;
    if (!tp_dtype_is_complex((tp_dtype)self->dtype) || (self->ndim != 2 && self->ndim != 3))
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected a complex tensor of 2 or 3 dimensions, got %s of shape %s", tp_dtype_name((tp_dtype)self->dtype),
                        tpi_shape_text(tpi_shape(self)));
    int64_t bins = self->shape[self->ndim - 2];
    bool half = onesided == TP_NONE ? bins != n_fft : onesided != 0; /* not given: what the frequencies look like */
    if (half && return_complex) return tpi_fail(TP_ERR_RUNTIME, "argument 'onesided': a complex signal needs all frequencies, expected false");
    int64_t count = self->shape[self->ndim - 1], total = tpi_size_plus(n_fft, tpi_size_times(f.hop, count - 1));
    if (bins != (half ? n_fft / 2 + 1 : n_fft) || count < 1)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected %lld frequencies and at least one frame, got shape %s", (long long)(half ? n_fft / 2 + 1 : n_fft),
                        tpi_shape_text(tpi_shape(self)));
    tpi_bag bag = {0};
    tp_tensor *shaped, *x = self->ndim == 2 ? tpi_put(&bag, tpo_unsqueeze(self, 0)) : self;
    if (!x || !read_window(&bag, &f, window, self, &shaped)) return tpi_empty_bag(&bag, NULL);
    tp_tensor *turned = tpi_put(&bag, tpo_transpose(x, 1, 2));
    const char *norm = normalized ? "ortho" : "backward";
    /* a real signal needs the first half of the frequencies alone; irfft cuts the rest off */
    tp_tensor *each = tpi_put(&bag, return_complex ? tpo_fft_ifft(turned, TP_NONE, -1, norm) : tpo_fft_irfft(turned, n_fft, -1, norm));
    if (shaped) each = tpi_put(&bag, tpo_mul(TP_OPERAND(each), TP_OPERAND(shaped)));
    tp_tensor *sum = overlap_add(&bag, each, &f, total), *envelope = envelope_of(&bag, shaped, &f, count, total, self);
    if (!sum || !envelope) return tpi_empty_bag(&bag, NULL);
    int64_t start = center ? n_fft / 2 : 0, end = length != TP_NONE ? tpi_size_plus(start, length) : center ? total - n_fft / 2 : total;
    if (end <= start || start >= total) return tpi_empty_bag(&bag, tpi_fail(TP_ERR_RUNTIME, "argument 'length': nothing of the signal is left"));
    tp_tensor *y = signal_part(&bag, sum, start, end), *cover = signal_part(&bag, envelope, start, end);
    if (!y || !cover) return tpi_empty_bag(&bag, NULL);
    if (!covers(cover)) return tpi_empty_bag(&bag, tpi_fail(TP_ERR_RUNTIME, "argument 'window': the overlapped windows leave places uncovered"));
    tp_tensor *out = tpi_put(&bag, tpo_div(TP_OPERAND(y), TP_OPERAND(cover)));
    if (self->ndim == 2) out = tpi_put(&bag, tpo_squeeze_dim(out, 0));
    if (out && end > total) out = tpi_put(&bag, tpo_constant_pad_nd(out, TP_INTS(0, end - total), tp_int(0)));
    return tpi_empty_bag(&bag, tpi_retain(out));
}
