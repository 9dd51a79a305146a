/* A dictionary that keeps the order in which its items came. */
#pragma once
#include <taper/cpp/base.hpp>

#include <unordered_map>

namespace taper {
template <class K, class V> class OrderedDict {
  public:
    class Item {
      public:
        Item(K key, V value) : pair_(std::move(key), std::move(value)) {}
        const K &key() const noexcept { return pair_.first; }
        V &value() noexcept { return pair_.second; }
        const V &value() const noexcept { return pair_.second; }
        V &operator*() { return value(); }
        const V &operator*() const { return value(); }
        V *operator->() { return &value(); }
        const V *operator->() const { return &value(); }
        const std::pair<K, V> &pair() const { return pair_; }

      private:
        std::pair<K, V> pair_;
    };
    using Iterator = typename std::vector<Item>::iterator;
    using ConstIterator = typename std::vector<Item>::const_iterator;
    OrderedDict() = default;
    explicit OrderedDict(std::string what) : what_(std::move(what)) {}
    OrderedDict(std::initializer_list<std::pair<K, V>> items) {
        for (const auto &i : items) insert(i.first, i.second);
    }
    Iterator begin() { return items_.begin(); }
    Iterator end() { return items_.end(); }
    ConstIterator begin() const { return items_.begin(); }
    ConstIterator end() const { return items_.end(); }
    size_t size() const { return items_.size(); }
    bool is_empty() const { return items_.empty(); }
    bool contains(const K &key) const { return find(key) != nullptr; }
    V *find(const K &key) {
        auto at = places_.find(key);
        return at == places_.end() ? nullptr : &items_[at->second].value();
    }
    const V *find(const K &key) const { return const_cast<OrderedDict *>(this)->find(key); }
    V &operator[](const K &key) {
        V *v = find(key);
        if (!v) detail::raise(TP_ERR_RUNTIME, detail::text(what_, " '", key, "' is not defined"));
        return *v;
    }
    const V &operator[](const K &key) const { return const_cast<OrderedDict &>(*this)[key]; }
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>> Item &operator[](I i) {
        return items_.at(static_cast<size_t>(i));
    }
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>> const Item &operator[](I i) const {
        return items_.at(static_cast<size_t>(i));
    }
    V &insert(K key, V value) {
        if (contains(key)) detail::raise(TP_ERR_RUNTIME, detail::text(what_, " '", key, "' already defined"));
        return set(std::move(key), std::move(value));
    }
    V &set(K key, V value) { /* in place of what stands there */
        if (V *old = find(key)) return *old = std::move(value);
        places_.emplace(key, items_.size());
        items_.emplace_back(std::move(key), std::move(value));
        return items_.back().value();
    }
    void update(const OrderedDict &other) {
        for (const Item &i : other) insert(i.key(), i.value());
    }
    void erase(const K &key) {
        auto at = places_.find(key);
        if (at == places_.end()) detail::raise(TP_ERR_RUNTIME, detail::text(what_, " '", key, "' is not defined"));
        items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at->second));
        places_.clear();
        for (size_t i = 0; i < items_.size(); i++) places_.emplace(items_[i].key(), i);
    }
    void clear() {
        items_.clear();
        places_.clear();
    }
    const std::vector<Item> &items() const { return items_; }
    std::vector<K> keys() const {
        std::vector<K> r;
        for (const Item &i : items_) r.push_back(i.key());
        return r;
    }
    std::vector<V> values() const {
        std::vector<V> r;
        for (const Item &i : items_) r.push_back(i.value());
        return r;
    }
    std::vector<std::pair<K, V>> pairs() const {
        std::vector<std::pair<K, V>> r;
        for (const Item &i : items_) r.push_back(i.pair());
        return r;
    }

  private:
    std::vector<Item> items_;
    std::unordered_map<K, size_t> places_;
    std::string what_ = "Key";
};
} // namespace taper
