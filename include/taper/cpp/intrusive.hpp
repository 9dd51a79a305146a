/* Objects that count their owners themselves: intrusive_ptr, which custom classes of extensions are held by. */
#pragma once
#include <taper/cpp/base.hpp>

#include <atomic>

namespace taper {
class intrusive_ptr_target {
  public:
    intrusive_ptr_target() = default;
    intrusive_ptr_target(const intrusive_ptr_target &) {} /* a copy has owners of its own */
    intrusive_ptr_target &operator=(const intrusive_ptr_target &) { return *this; }
    virtual ~intrusive_ptr_target() = default;

  private:
    template <class T> friend class intrusive_ptr;
    mutable std::atomic<size_t> owners_{0};
};
/* What torch::class_ registers derives from this. */
struct CustomClassHolder : intrusive_ptr_target {};

template <class T> class intrusive_ptr {
  public:
    using element_type = T;
    intrusive_ptr() = default;
    intrusive_ptr(std::nullptr_t) {}
    explicit intrusive_ptr(T *owned) : target_(owned) { add(); }
    intrusive_ptr(const intrusive_ptr &other) : target_(other.target_) { add(); }
    intrusive_ptr(intrusive_ptr &&other) noexcept : target_(std::exchange(other.target_, nullptr)) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    intrusive_ptr(const intrusive_ptr<U> &other) : target_(other.get()) {
        add();
    }
    intrusive_ptr &operator=(intrusive_ptr other) noexcept {
        std::swap(target_, other.target_);
        return *this;
    }
    ~intrusive_ptr() { drop(); }
    template <class... A> static intrusive_ptr make(A &&...args) {
        return intrusive_ptr(new T(std::forward<A>(args)...));
    }
    /* What release() gave up is owned again. */
    static intrusive_ptr reclaim(T *owning) {
        intrusive_ptr p;
        p.target_ = owning;
        return p;
    }
    static intrusive_ptr reclaim_copy(T *held) { return intrusive_ptr(held); }
    static intrusive_ptr unsafe_reclaim_from_nonowning(T *held) { return intrusive_ptr(held); }
    T *get() const noexcept { return target_; }
    T &operator*() const noexcept { return *target_; }
    T *operator->() const noexcept { return target_; }
    explicit operator bool() const noexcept { return target_ != nullptr; }
    bool defined() const noexcept { return target_ != nullptr; }
    size_t use_count() const noexcept { return target_ ? target_->owners_.load() : 0; }
    bool unique() const noexcept { return use_count() == 1; }
    void reset() { *this = intrusive_ptr(); }
    T *release() noexcept { return std::exchange(target_, nullptr); }
    void swap(intrusive_ptr &other) noexcept { std::swap(target_, other.target_); }

  private:
    void add() {
        if (target_) target_->owners_.fetch_add(1, std::memory_order_relaxed);
    }
    void drop() {
        if (target_ && target_->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete target_;
    }
    T *target_ = nullptr;
};
template <class A, class B> inline bool operator==(const intrusive_ptr<A> &a, const intrusive_ptr<B> &b) {
    return a.get() == b.get();
}
template <class A, class B> inline bool operator!=(const intrusive_ptr<A> &a, const intrusive_ptr<B> &b) {
    return a.get() != b.get();
}
template <class T, class... A> inline intrusive_ptr<T> make_intrusive(A &&...args) {
    return intrusive_ptr<T>::make(std::forward<A>(args)...);
}
template <class T, class U> inline intrusive_ptr<T> static_intrusive_pointer_cast(const intrusive_ptr<U> &p) {
    return intrusive_ptr<T>(static_cast<T *>(p.get()));
}
template <class T, class U> inline intrusive_ptr<T> dynamic_intrusive_pointer_cast(const intrusive_ptr<U> &p) {
    return intrusive_ptr<T>(dynamic_cast<T *>(p.get()));
}
} // namespace taper
