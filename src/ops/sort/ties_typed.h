/* One item type's selections for ties.c. Every comparison and every swap below is in the order of the selection that it
 * stands for: among items of one key the order is the result.
 * Before including: ITEM, ITEM_OF(key, at), KEY(item), NAME(x). */

static bool NAME(less)(const ITEM *a, const ITEM *b) { return KEY(*a) < KEY(*b); }

static void NAME(swap)(ITEM *a, ITEM *b) {
    ITEM t = *a;
    *a = *b;
    *b = t;
}

static void NAME(insertion)(ITEM *x, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        ITEM v = x[i];
        int64_t j = i;
        for (; j > 0 && NAME(less)(&v, &x[j - 1]); j--) x[j] = x[j - 1];
        x[j] = v;
    }
}

/* ---- A heap with the largest item first ---- */
/* Puts v into the hole: down along the larger child to a leaf, then up again, never above `top`. */
static void NAME(fill_hole)(ITEM *heap, int64_t n, int64_t hole, ITEM v) {
    const int64_t top = hole;
    int64_t child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (NAME(less)(&heap[child], &heap[child - 1])) child--;
        heap[hole] = heap[child];
        hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) { /* the last inner item has one child */
        child = 2 * child + 1;
        heap[hole] = heap[child];
        hole = child;
    }
    while (hole > top && NAME(less)(&heap[(hole - 1) / 2], &v)) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = v;
}

/* The largest goes to *place, and what was there into the heap. */
static void NAME(replace_largest)(ITEM *heap, int64_t n, ITEM *slot) {
    ITEM v = *slot;
    *slot = heap[0];
    NAME(fill_hole)(heap, n, 0, v);
}

static void NAME(make_heap)(ITEM *x, int64_t n) {
    for (int64_t parent = (n - 2) / 2; n > 1 && parent >= 0; parent--) NAME(fill_hole)(x, n, parent, x[parent]);
}

/* The k smallest to the front, as a heap. */
static void NAME(heap_select)(ITEM *x, int64_t n, int64_t k) {
    NAME(make_heap)(x, k);
    for (int64_t i = k; i < n; i++)
        if (NAME(less)(&x[i], &x[0])) NAME(replace_largest)(x, k, &x[i]);
}

static void NAME(sort_heap)(ITEM *heap, int64_t n) {
    for (int64_t left = n - 1; left > 0; left--) NAME(replace_largest)(heap, left, &heap[left]);
}

static void NAME(partial_sort)(ITEM *x, int64_t n, int64_t k) {
    NAME(heap_select)(x, n, k);
    NAME(sort_heap)(x, k);
}

/* What partial_sort leaves at the front, from the row's own elements: those behind the heap are seen once, and what it
 * puts in their places is never seen. */
static void NAME(few)(ITEM *heap, int64_t n, int64_t k, const tpi_row *row) {
    enum { KEYS = 512 };
    uint64_t keys[KEYS];
    for (int64_t i = 0, count; i < n; i += count) {
        const int64_t end = i < k ? k : n;
        count = end - i < KEYS ? end - i : KEYS;
        tpi_keys(keys, row->from + i * row->stride, row->stride, count, row->dtype, row->descending);
        if (i >= k) {
            for (int64_t j = 0; j < count; j++)
                if (keys[j] < KEY(heap[0])) NAME(fill_hole)(heap, k, 0, ITEM_OF(keys[j], i + j));
            continue;
        }
        for (int64_t j = 0; j < count; j++) heap[i + j] = ITEM_OF(keys[j], i + j);
        if (i + count == k) NAME(make_heap)(heap, k);
    }
    NAME(sort_heap)(heap, k);
}

/* ---- Quicksort and quickselect ---- */
/* Divides n > 3 items at the median of the second, the middle and the last one; gives where the upper part begins. */
static int64_t NAME(divide)(ITEM *x, int64_t n) {
    ITEM *a = &x[1], *b = &x[n / 2], *c = &x[n - 1], *median = a;
    if (NAME(less)(a, b))
        median = NAME(less)(b, c) ? b : NAME(less)(a, c) ? c : a;
    else if (!NAME(less)(a, c))
        median = NAME(less)(b, c) ? c : b;
    NAME(swap)(x, median);
    int64_t low = 1, high = n;
    for (;; low++) {
        while (NAME(less)(&x[low], x)) low++;
        do high--;
        while (NAME(less)(x, &x[high]));
        if (low >= high) return low;
        NAME(swap)(&x[low], &x[high]);
    }
}

static void NAME(sort_pieces)(ITEM *x, int64_t n, int divisions) {
    for (; n > SHORT_SORT; divisions--) {
        if (divisions == 0) {
            NAME(partial_sort)(x, n, n);
            return;
        }
        int64_t upper = NAME(divide)(x, n);
        NAME(sort_pieces)(x + upper, n - upper, divisions - 1);
        n = upper;
    }
}

static void NAME(sort)(ITEM *x, int64_t n) {
    NAME(sort_pieces)(x, n, most_divisions(n));
    NAME(insertion)(x, n);
}

static void NAME(select_nth)(ITEM *x, int64_t n, int64_t k) {
    for (int divisions = most_divisions(n); n > SHORT_SELECT; divisions--) {
        if (divisions == 0) {
            NAME(heap_select)(x, n, k + 1);
            NAME(swap)(x, &x[k]);
            return;
        }
        int64_t upper = NAME(divide)(x, n);
        if (upper <= k) {
            x += upper;
            n -= upper;
            k -= upper;
        } else
            n = upper;
    }
    NAME(insertion)(x, n);
}

static void NAME(smallest)(ITEM *x, int64_t n, int64_t k) {
    NAME(select_nth)(x, n, k - 1);
    NAME(sort)(x, k - 1);
}

static ITEM NAME(kth)(ITEM *x, int64_t n, int64_t k) {
    int64_t left = 0, right = n - 1;
    while (right > left + 1) {
        /* The median of the first, the middle and the last comes to the left end, the smallest beside it. */
        NAME(swap)(&x[left + (right - left) / 2], &x[left + 1]);
        if (NAME(less)(&x[right], &x[left + 1])) NAME(swap)(&x[left + 1], &x[right]);
        if (NAME(less)(&x[right], &x[left])) NAME(swap)(&x[left], &x[right]);
        if (NAME(less)(&x[left], &x[left + 1])) NAME(swap)(&x[left + 1], &x[left]);
        ITEM pivot = x[left];
        int64_t i = left + 1, j = right;
        for (;;) {
            do i++;
            while (NAME(less)(&x[i], &pivot));
            do j--;
            while (NAME(less)(&pivot, &x[j]));
            if (j < i) break;
            NAME(swap)(&x[i], &x[j]);
        }
        NAME(swap)(&x[left], &x[j]);
        if (j <= k) left = i;
        if (j >= k) right = j - 1;
    }
    if (right == left + 1 && NAME(less)(&x[right], &x[left])) NAME(swap)(&x[left], &x[right]);
    return x[k];
}
#undef ITEM
#undef ITEM_OF
#undef KEY
#undef NAME
