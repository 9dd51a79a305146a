/* Dictionaries that keep the order in which their items came: OrderedDict, and Dict, whose copies share the items. */
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

/* LibTorch's c10::Dict: an argument or a result of operators. A copy is the same dictionary; copy() makes another. */
template <class K, class V> class Dict {
  public:
    using key_type = K;
    using mapped_type = V;
    using iterator = typename OrderedDict<K, V>::Iterator;
    using const_iterator = typename OrderedDict<K, V>::ConstIterator;
    Dict() : items_(std::make_shared<OrderedDict<K, V>>()) {}
    Dict copy() const {
        Dict other;
        *other.items_ = *items_;
        return other;
    }
    iterator begin() const { return items_->begin(); }
    iterator end() const { return items_->end(); }
    size_t size() const { return items_->size(); }
    bool empty() const { return items_->is_empty(); }
    void clear() { items_->clear(); }
    void reserve(size_t) {}
    bool contains(const K &key) const { return items_->contains(key); }
    V at(const K &key) const { return (*items_)[key]; }
    iterator find(const K &key) const {
        const V *value = items_->find(key);
        iterator at = begin();
        while (at != end() && &at->value() != value) ++at;
        return at;
    }
    /* A key that is there keeps its value. */
    std::pair<iterator, bool> insert(K key, V value) const {
        const bool is_new = !contains(key);
        if (is_new) items_->insert(key, std::move(value));
        return {is_new ? end() - 1 : find(key), is_new};
    }
    std::pair<iterator, bool> insert_or_assign(K key, V value) const {
        const bool is_new = !contains(key);
        items_->set(key, std::move(value));
        return {is_new ? end() - 1 : find(key), is_new};
    }
    size_t erase(const K &key) const {
        if (!contains(key)) return 0;
        items_->erase(key);
        return 1;
    }
    bool is(const Dict &other) const { return items_ == other.items_; }

  private:
    std::shared_ptr<OrderedDict<K, V>> items_;
};
} // namespace taper
