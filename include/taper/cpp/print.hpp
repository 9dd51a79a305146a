/* Tensors on streams, laid out as LibTorch lays them out: columns, the type and the sizes below. */
#pragma once
#include <taper/cpp/tensor.hpp>

#include <cstdio>
#include <cstring>
#include <iomanip>
#include <iostream>

namespace taper {
namespace detail {
struct Format {
    double scale = 1;
    int width = 0;
};
inline std::ostream &plain_float(std::ostream &out) {
    out.unsetf(std::ios_base::floatfield);
    return out;
}
inline Format choose_format(std::ostream &out, const double *v, int64_t n) {
    Format f;
    if (!n) return f;
    bool whole = true;
    double least = 1, most = 1;
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        if (!std::isfinite(v[i])) continue;
        if (v[i] != std::ceil(v[i])) whole = false;
        const double z = std::fabs(v[i]);
        least = any ? std::min(least, z) : z;
        most = any ? std::max(most, z) : z;
        any = true;
    }
    if (any) {
        least = least != 0 ? std::floor(std::log10(least)) + 1 : 1;
        most = most != 0 ? std::floor(std::log10(most)) + 1 : 1;
    }
    if (whole) {
        if (most > 9) {
            f.width = 11;
            out << std::scientific << std::setprecision(4);
        } else {
            f.width = static_cast<int>(most) + 1;
            plain_float(out);
        }
    } else if (most - least > 4) {
        f.width = std::fabs(most) > 99 || std::fabs(least) > 99 ? 12 : 11;
        out << std::scientific << std::setprecision(4);
    } else {
        if (most > 5 || most < 0) {
            f.width = 7;
            f.scale = std::pow(10.0, most - 1);
        } else
            f.width = most == 0 ? 7 : static_cast<int>(most) + 6;
        out << std::fixed << std::setprecision(4);
    }
    return f;
}
/* The fewest digits that give the number back: how LibTorch prints a tensor without dims. */
inline std::string shortest(double v) {
    char text[40];
    int digits = 1;
    do std::snprintf(text, sizeof text, "%.*e", digits - 1, v);
    while (std::isfinite(v) && std::strtod(text, nullptr) != v && digits++ < 17);
    const char *e = std::strchr(text, 'e');
    const int exponent = e ? std::atoi(e + 1) : 16; /* none: infinity, nan */
    if (exponent >= -4 && exponent < 16)
        std::snprintf(text, sizeof text, "%.*f", std::max(digits - 1 - exponent, 0), v);
    return text;
}
inline void put_scale(std::ostream &out, double scale) {
    const std::ios_base::fmtflags flags = out.flags();
    plain_float(out) << scale << " *" << '\n';
    out.flags(flags);
}
inline void put_matrix(std::ostream &out, const double *v, int64_t rows, int64_t columns, int64_t line,
                       int64_t indent) {
    const Format f = choose_format(out, v, rows * columns);
    const std::string space(static_cast<size_t>(indent), ' ');
    const int64_t fit = (line - indent) / (f.width + 1);
    /* LibTorch indents all rows of a slice but the first. */
    for (int64_t first = 0, last; first < columns; first = last + 1) {
        last = std::min(first + fit, columns) - 1;
        if (fit < columns) {
            if (first) out << '\n';
            out << "Columns " << first + 1 << " to " << last + 1 << space;
        }
        if (f.scale != 1) {
            put_scale(out, f.scale);
            out << space;
        }
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = first; c <= last; c++) {
                out << std::setw(f.width) << v[r * columns + c] / f.scale;
                if (c < last)
                    out << ' ';
                else {
                    out << '\n';
                    if (r + 1 < rows) out << (f.scale != 1 ? space + " " : space);
                }
            }
    }
}
} // namespace detail

inline std::ostream &print(std::ostream &out, const Tensor &tensor, int64_t line = 80) {
    if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
    const std::ios_base::fmtflags flags = out.flags();
    const std::streamsize precision = out.precision();
    /* Of complex numbers LibTorch shows the real parts. */
    const Tensor shown = tensor.is_complex() ? taper::real(tensor.detach()) : tensor.detach();
    const Tensor t = shown.to(Device(kCPU), kDouble).contiguous();
    const double *v = static_cast<const double *>(t.data_ptr());
    if (t.dim() == 0)
        out << detail::shortest(v[0]) << '\n';
    else if (t.dim() == 1) {
        if (t.numel()) {
            const detail::Format f = detail::choose_format(out, v, t.numel());
            if (f.scale != 1) detail::put_scale(out, f.scale);
            for (int64_t i = 0; i < t.numel(); i++) out << std::setw(f.width) << v[i] / f.scale << '\n';
        }
    } else if (t.numel()) {
        const int64_t rows = t.size(-2), columns = t.size(-1), outer = t.dim() - 2;
        if (!outer)
            detail::put_matrix(out, v, rows, columns, line, 0);
        else {
            std::vector<int64_t> at(static_cast<size_t>(outer), 0);
            for (int64_t k = 0; k < t.numel() / (rows * columns); k++) {
                int64_t offset = 0; /* the first index runs fastest */
                for (int64_t d = 0; d < outer; d++)
                    offset += at[static_cast<size_t>(d)] * t.strides()[static_cast<size_t>(d)];
                if (k) out << '\n';
                out << "(";
                for (int64_t i : at) out << i + 1 << ",";
                out << ".,.) = " << '\n';
                detail::put_matrix(out, v + offset, rows, columns, line, 1);
                for (size_t d = 0; d < at.size() && ++at[d] == t.sizes()[d]; d++) at[d] = 0;
            }
        }
    }
    out << "[ " << tensor.toString() << "{";
    for (int64_t d = 0; d < t.dim(); d++) out << (d ? "," : "") << t.size(d);
    out << "} ]";
    out.flags(flags);
    out.precision(precision);
    return out;
}
inline std::ostream &operator<<(std::ostream &out, const Tensor &t) { return print(out, t); }
inline void print(const Tensor &t, int64_t line = 80) { print(std::cout, t, line); }
inline void Tensor::print() const { /* what it is, for those who look for a fault: where warnings go */
    if (defined())
        std::cerr << "[" << toString() << " " << sizes() << "]" << '\n';
    else
        std::cerr << "[UndefinedTensor]" << '\n';
}
namespace detail {
/* Items with spaces between, at most a hundred: how LibTorch shows containers. */
template <class C> inline std::ostream &put_items(std::ostream &out, const C &items) {
    int shown = 0;
    for (const auto &item : items) {
        if (shown == 100) return out << " ...";
        out << (shown++ ? " " : "") << item;
    }
    return out;
}
} // namespace detail
template <class T> inline std::ostream &operator<<(std::ostream &out, const std::vector<T> &list) {
    return detail::put_items(out, list);
}
} // namespace taper
