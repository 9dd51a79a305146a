/* The short-time Fourier transform and its inverse, composed of framing, windowing and the transforms along frames. */
#include "ops/temporaries.h"
#include "ops/native.h"
#include "tensor/sizes.h"
#include "tpi_ops.h"
#include <math.h>

/* What both directions share, with defaults filled in. */
typedef struct frames {
    int64_t n_fft, hop, window_length;
} frames;

static frames read_frames(int64_t n_fft, int64_t hop_length, int64_t win_length) {
    return (frames){n_fft, hop_length == TP_NONE ? n_fft / 4 : hop_length, win_length == TP_NONE ? n_fft : win_length};
}

static bool check_window_length(const frames *f) {
    return (f->window_length >= 1 && f->window_length <= f->n_fft) ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'win_length': expected 0 < win_length <= n_fft, but got win_length=%lld",
                      (long long)f->window_length);
}

/* The window over a whole frame, zeros around it; ones in the real dtype of `like` when there is none and all of the
 * frame is used: NULL. */
static bool read_window(tpi_temporaries *temps, const frames *f, tp_tensor *window, const tp_tensor *like,
                        tp_tensor **out) {
    *out = NULL;
    if (!window && f->window_length == f->n_fft) return true;
    if (!window)
        window = tpi_put(
            temps, tpo_ones(TP_INTS(f->window_length), tpi_dtype_to_real((tp_dtype)like->dtype), tpi_device(like)));
    int64_t left = (f->n_fft - f->window_length) / 2, pad[2] = {left, f->n_fft - f->window_length - left};
    *out = f->window_length == f->n_fft ? window
                                        : tpi_put(temps, tpo_constant_pad_nd(window, tp_ints_view(pad, 2), tp_int(0)));
    return *out != NULL;
}

static tp_tensor *padded(tpi_temporaries *temps, tp_tensor *x, int64_t each,
                         const char *mode) { /* x: (batch, length) */
    tp_tensor *deep = tpi_put(temps, tpo_unsqueeze(x, 0));
    tp_tensor *wide = deep ? tpi_put(temps, tpo_pad(deep, TP_INTS(each, each), mode, TP_NO_FLOAT)) : NULL;
    return tpi_put(temps, tpo_squeeze_dim(wide, 0));
}

/* length: the signal's, padded. */
static bool check_stft(const frames *f, int64_t length, const tp_tensor *window) {
    if (f->n_fft < 1 || f->n_fft > length)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'n_fft': expected 0 < n_fft < %lld, but got n_fft=%lld",
                          (long long)length, (long long)f->n_fft);
    if (f->hop < 1)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'hop_length': expected hop_length > 0, but got hop_length=%lld",
                          (long long)f->hop);
    if (!check_window_length(f)) return false;
    return !window || (window->ndim == 1 && window->shape[0] == f->window_length) ||
           tpi_refuse(TP_ERR_RUNTIME,
                      "argument 'window': expected a 1D window tensor of size equal to win_length=%lld, but got window "
                      "with size %s",
                      (long long)f->window_length, tpi_shape_text(tpi_shape(window)));
}

/* onesided, return_complex: true, false, or not given (-1). */
tp_tensor *tpi_compose_stft(tp_tensor *self, int64_t n_fft, int64_t hop_length, int64_t win_length, tp_tensor *window,
                            bool center, const char *pad_mode, bool normalized, int64_t onesided,
                            int64_t return_complex) {
    frames f = read_frames(n_fft, hop_length, win_length);
    if (tpi_dtype_category[self->dtype] & (TPI_CAT_BOOL | TPI_CAT_INT))
        return tpi_fail(TP_ERR_MISSING,
                        "argument 'self': expected a tensor of floating point or complex values, got %s",
                        tp_dtype_name((tp_dtype)self->dtype));
    if (self->ndim != 1 && self->ndim != 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected a 1D or 2D tensor, got shape %s",
                        tpi_shape_text(tpi_shape(self)));
    bool phased =
        tp_dtype_is_complex((tp_dtype)self->dtype) || (window && tp_dtype_is_complex((tp_dtype)window->dtype));
    if (return_complex == TP_NONE && !phased)
        return tpi_fail(
            TP_ERR_RUNTIME,
            "stft requires the return_complex parameter be given for real inputs, and will further require that "
            "return_complex=True in a future PyTorch release.");
    bool half = onesided == TP_NONE ? !phased : onesided != 0;
    if (half && phased)
        return tpi_fail(TP_ERR_RUNTIME,
                        "argument 'onesided': Cannot have onesided output if window or input is complex");
    tpi_temporaries temps = {0};
    tp_tensor *shaped, *x = self->ndim == 1 ? tpi_put(&temps, tpo_unsqueeze(self, 0)) : self;
    if (center) x = padded(&temps, x, n_fft / 2, pad_mode);
    if (!x || !check_stft(&f, x->shape[1], window) || !read_window(&temps, &f, window, self, &shaped))
        return tpi_release_temporaries(&temps, NULL);
    tp_tensor *cut = tpi_put(&temps, tpo_unfold(x, -1, n_fft, f.hop));
    if (shaped) cut = tpi_put(&temps, tpo_mul(TP_OPERAND(cut), TP_OPERAND(shaped)));
    const char *norm = normalized ? "ortho" : "backward";
    tp_tensor *spectrum =
        tpi_put(&temps, half ? tpo_fft_rfft(cut, TP_NONE, -1, norm) : tpo_fft_fft(cut, TP_NONE, -1, norm));
    tp_tensor *out = tpi_put(&temps, tpo_transpose(spectrum, 1, 2));
    if (self->ndim == 1) out = tpi_put(&temps, tpo_squeeze_dim(out, 0));
    bool complex_result = return_complex == TP_NONE || return_complex;
    return tpi_release_temporaries(&temps, complex_result ? tpi_retain(out) : tpo_view_as_real(out));
}

/* Frames (batch, count, n_fft) laid over each other, hop apart. */
static tp_tensor *overlap_add(tpi_temporaries *temps, tp_tensor *x, const frames *f, int64_t length) {
    return x ? tpi_put(temps, tpo_unfold_backward(x, TP_INTS(x->shape[0], length), 1, f->n_fft, f->hop)) : NULL;
}

/* The sum of squared windows that covers each place: what the overlapped frames are divided by. */
static tp_tensor *envelope_of(tpi_temporaries *temps, tp_tensor *window, const frames *f, int64_t count, int64_t length,
                              const tp_tensor *like) {
    tp_tensor *w =
        window
            ? window
            : tpi_put(temps, tpo_ones(TP_INTS(f->n_fft), tpi_dtype_to_real((tp_dtype)like->dtype), tpi_device(like)));
    tp_tensor *square = tpi_put(temps, tpo_mul(TP_OPERAND(w), TP_OPERAND(w)));
    return overlap_add(temps, square ? tpi_put(temps, tpo_expand(square, TP_INTS(1, count, f->n_fft), false)) : NULL, f,
                       length);
}

/* Of real numbers: without a choice in the loop, which is a vector's. */
#define ALL_COVERED(type)                                                                     \
    {                                                                                         \
        const type *x = (const type *)(const void *)here->data;                               \
        for (int64_t i = 0; i < here->numel; i++) uncovered |= !(fabs((double)x[i]) > LEAST); \
    }

static bool covers(tp_tensor *envelope) { /* no place is left without a window */
    static const double LEAST = 1e-11;
    if (tpi_device(envelope).type == TP_META) return true;
    tp_tensor *here = tpi_on_host(envelope);
    bool uncovered = !here;
    if (here && here->dtype == TP_FLOAT32)
        ALL_COVERED(float)
    else if (here && here->dtype == TP_FLOAT64)
        ALL_COVERED(double)
    else
        for (int64_t i = 0; here && i < here->numel; i++) {
            const char *at = here->data + i * (int64_t)tpi_itemsize(here);
            const tpi_c128 v = tpi_param_of(tpi_load_scalar(at, (tp_dtype)here->dtype), TPI_C128).c128;
            uncovered |= !(hypot(v.re, v.im) > LEAST);
        }
    tpi_release(here);
    return !uncovered;
}

/* x (batch, length of all frames) cut to the signal: from the middle of the first frame on, `length` elements or to the
 * middle of the last. */
static tp_tensor *signal_part(tpi_temporaries *temps, tp_tensor *x, int64_t start, int64_t end) {
    return tpi_put(temps, tpo_narrow(x, 1, start, (end < x->shape[1] ? end : x->shape[1]) - start));
}

static bool check_istft(const frames *f, const tp_tensor *self, const tp_tensor *window, bool half,
                        bool return_complex) {
    int64_t bins = self->shape[self->ndim - 2];
    if (!self->numel) return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': input tensor cannot be empty.");
    if (self->ndim != 2 && self->ndim != 3)
        return tpi_refuse(TP_ERR_RUNTIME, "argument 'self': expected a tensor with 2 or 3 dimensions, but got %d",
                          self->ndim);
    if (half && bins != f->n_fft / 2 + 1)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'self': expected the frequency dimension (3rd to the last) of the input tensor to "
                          "match n_fft / 2 + 1 when onesided=True, but got %lld",
                          (long long)bins);
    if (!half && bins != f->n_fft)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'self': expected the frequency dimension (3rd to the last) of the input tensor to "
                          "match n_fft when onesided=False, but got %lld",
                          (long long)bins);
    if (!check_window_length(f)) return false;
    if (f->hop < 1 || f->hop > f->window_length)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'hop_length': expected 0 < hop_length <= win_length, but got %lld and %lld",
                          (long long)f->hop, (long long)f->window_length);
    if (window && (window->ndim != 1 || window->shape[0] != f->window_length))
        return tpi_refuse(
            TP_ERR_RUNTIME,
            "argument 'window': Invalid window shape. window has to be 1D and length of `win_length`, got %s for %lld",
            tpi_shape_text(tpi_shape(window)), (long long)f->window_length);
    if (half && return_complex)
        return tpi_refuse(TP_ERR_RUNTIME,
                          "argument 'onesided': Cannot have onesided output if window or input is complex");
    return return_complex || !window || !tp_dtype_is_complex((tp_dtype)window->dtype) ||
           tpi_refuse(TP_ERR_RUNTIME, "argument 'window': Complex windows are incompatible with return_complex=False");
}

tp_tensor *tpi_compose_istft(tp_tensor *self, int64_t n_fft, int64_t hop_length, int64_t win_length, tp_tensor *window,
                             bool center, bool normalized, int64_t onesided, int64_t length, bool return_complex) {
    frames f = read_frames(n_fft, hop_length, win_length);
    if (!tp_dtype_is_complex((tp_dtype)self->dtype))
        return tpi_fail(
            TP_ERR_TYPE,
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.");
    if (self->ndim < 2)
        return tpi_fail(TP_ERR_RUNTIME, "argument 'self': expected a tensor with 2 or 3 dimensions, but got %d",
                        self->ndim);
    bool half = onesided == TP_NONE ? self->shape[self->ndim - 2] != n_fft
                                    : onesided != 0; /* not given: what the frequencies look like */
    if (!check_istft(&f, self, window, half, return_complex)) return NULL;
    int64_t count = self->shape[self->ndim - 1], total = tpi_size_plus(n_fft, tpi_size_times(f.hop, count - 1));
    tpi_temporaries temps = {0};
    tp_tensor *shaped, *x = self->ndim == 2 ? tpi_put(&temps, tpo_unsqueeze(self, 0)) : self;
    if (!x || !read_window(&temps, &f, window, self, &shaped)) return tpi_release_temporaries(&temps, NULL);
    tp_tensor *transposed = tpi_put(&temps, tpo_transpose(x, 1, 2));
    const char *norm = normalized ? "ortho" : "backward";
    /* a real signal needs the first half of the frequencies alone; irfft cuts the rest off */
    tp_tensor *each = tpi_put(&temps, return_complex ? tpo_fft_ifft(transposed, TP_NONE, -1, norm)
                                                     : tpo_fft_irfft(transposed, n_fft, -1, norm));
    if (shaped) each = tpi_put(&temps, tpo_mul(TP_OPERAND(each), TP_OPERAND(shaped)));
    tp_tensor *sum = overlap_add(&temps, each, &f, total),
              *envelope = envelope_of(&temps, shaped, &f, count, total, self);
    if (!sum || !envelope) return tpi_release_temporaries(&temps, NULL);
    int64_t start = center ? n_fft / 2 : 0, end = length != TP_NONE ? tpi_size_plus(start, length)
                                                  : center          ? total - n_fft / 2
                                                                    : total;
    if (end <= start || start >= total)
        return tpi_release_temporaries(&temps,
                                       tpi_fail(TP_ERR_RUNTIME, "argument 'length': nothing of the signal is left"));
    tp_tensor *y = signal_part(&temps, sum, start, end), *cover = signal_part(&temps, envelope, start, end);
    if (!y || !cover) return tpi_release_temporaries(&temps, NULL);
    if (!covers(cover))
        return tpi_release_temporaries(
            &temps, tpi_fail(TP_ERR_RUNTIME,
                             "argument 'window': window overlap add min: 1, the windows leave places uncovered"));
    tp_tensor *out = tpi_put(&temps, tpo_div(TP_OPERAND(y), TP_OPERAND(cover)));
    if (self->ndim == 2) out = tpi_put(&temps, tpo_squeeze_dim(out, 0));
    if (out && end > total) out = tpi_put(&temps, tpo_constant_pad_nd(out, TP_INTS(0, end - total), tp_int(0)));
    return tpi_release_temporaries(&temps, tpi_retain(out));
}
