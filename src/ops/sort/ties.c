/* See ties.h. Every comparison and every swap below is in the order of the selection that it stands for: among items of
 * one key the order is the result. */
#include "ops/sort/ties.h"

#define SHORT_SORT   16 /* std::sort leaves pieces of this size to the insertion sort */
#define SHORT_SELECT 3  /* std::nth_element does so with pieces of this size */
#define FEW_OF       64 /* topk takes std::partial_sort where k is at most the 64th part of the row */

static bool less(const tpi_pair *a, const tpi_pair *b) { return a->key < b->key; }

static void swap(tpi_pair *a, tpi_pair *b) {
    tpi_pair t = *a;
    *a = *b;
    *b = t;
}

static void insertion(tpi_pair *x, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        tpi_pair v = x[i];
        int64_t j = i;
        for (; j > 0 && less(&v, &x[j - 1]); j--) x[j] = x[j - 1];
        x[j] = v;
    }
}

/* ---- A heap with the largest item first ---- */
/* Puts v into the hole: down along the larger child to a leaf, then up again, never above `top`. */
static void fill_hole(tpi_pair *heap, int64_t n, int64_t hole, tpi_pair v) {
    const int64_t top = hole;
    int64_t child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (less(&heap[child], &heap[child - 1])) child--;
        heap[hole] = heap[child];
        hole = child;
    }
    if (n % 2 == 0 && child == (n - 2) / 2) { /* the last inner item has one child */
        child = 2 * child + 1;
        heap[hole] = heap[child];
        hole = child;
    }
    while (hole > top && less(&heap[(hole - 1) / 2], &v)) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = v;
}

/* The largest goes to *place, and what was there into the heap. */
static void replace_largest(tpi_pair *heap, int64_t n, tpi_pair *slot) {
    tpi_pair v = *slot;
    *slot = heap[0];
    fill_hole(heap, n, 0, v);
}

/* The k smallest to the front, as a heap. */
static void heap_select(tpi_pair *x, int64_t n, int64_t k) {
    for (int64_t parent = (k - 2) / 2; k > 1 && parent >= 0; parent--) fill_hole(x, k, parent, x[parent]);
    for (int64_t i = k; i < n; i++)
        if (less(&x[i], &x[0])) replace_largest(x, k, &x[i]);
}

static void partial_sort(tpi_pair *x, int64_t n, int64_t k) {
    heap_select(x, n, k);
    for (int64_t left = k - 1; left > 0; left--) replace_largest(x, left, &x[left]);
}

/* ---- Quicksort and quickselect ---- */
/* Divides n > 3 items at the median of the second, the middle and the last one; gives where the upper part begins. */
static int64_t divide(tpi_pair *x, int64_t n) {
    tpi_pair *a = &x[1], *b = &x[n / 2], *c = &x[n - 1], *median = a;
    if (less(a, b))
        median = less(b, c) ? b : less(a, c) ? c : a;
    else if (!less(a, c))
        median = less(b, c) ? c : b;
    swap(x, median);
    int64_t low = 1, high = n;
    for (;; low++) {
        while (less(&x[low], x)) low++;
        do high--;
        while (less(x, &x[high]));
        if (low >= high) return low;
        swap(&x[low], &x[high]);
    }
}

static int most_divisions(int64_t n) { return n > 0 ? 2 * (63 - __builtin_clzll((unsigned long long)n)) : 0; }

static void sort_pieces(tpi_pair *x, int64_t n, int divisions) {
    for (; n > SHORT_SORT; divisions--) {
        if (divisions == 0) {
            partial_sort(x, n, n);
            return;
        }
        int64_t upper = divide(x, n);
        sort_pieces(x + upper, n - upper, divisions - 1);
        n = upper;
    }
}

static void sort(tpi_pair *x, int64_t n) {
    sort_pieces(x, n, most_divisions(n));
    insertion(x, n);
}

static void select_nth(tpi_pair *x, int64_t n, int64_t k) {
    for (int divisions = most_divisions(n); n > SHORT_SELECT; divisions--) {
        if (divisions == 0) {
            heap_select(x, n, k + 1);
            swap(x, &x[k]);
            return;
        }
        int64_t upper = divide(x, n);
        if (upper <= k) {
            x += upper;
            n -= upper;
            k -= upper;
        } else
            n = upper;
    }
    insertion(x, n);
}

void tpi_ties_smallest(tpi_pair *x, int64_t n, int64_t k) {
    if (k < 1) return;
    if (k <= n / FEW_OF) {
        partial_sort(x, n, k);
        return;
    }
    select_nth(x, n, k - 1);
    sort(x, k - 1);
}

tpi_pair tpi_ties_kth(tpi_pair *x, int64_t n, int64_t k) {
    int64_t left = 0, right = n - 1;
    while (right > left + 1) {
        /* The median of the first, the middle and the last comes to the left end, the smallest beside it. */
        swap(&x[left + (right - left) / 2], &x[left + 1]);
        if (less(&x[right], &x[left + 1])) swap(&x[left + 1], &x[right]);
        if (less(&x[right], &x[left])) swap(&x[left], &x[right]);
        if (less(&x[left], &x[left + 1])) swap(&x[left + 1], &x[left]);
        tpi_pair pivot = x[left];
        int64_t i = left + 1, j = right;
        for (;;) {
            do i++;
            while (less(&x[i], &pivot));
            do j--;
            while (less(&pivot, &x[j]));
            if (j < i) break;
            swap(&x[i], &x[j]);
        }
        swap(&x[left], &x[j]);
        if (j <= k) left = i;
        if (j >= k) right = j - 1;
    }
    if (right == left + 1 && less(&x[right], &x[left])) swap(&x[left], &x[right]);
    return x[k];
}
