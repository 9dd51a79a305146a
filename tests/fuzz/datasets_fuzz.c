/* Datasets in files: CIFAR's records, images and labels from one idx file, tensors of a mapped checkpoint. The first
 * byte says which. */
#include "fuzz.h"

static void look_at(tp_dataset *d) {
    int64_t n = tp_dataset_count(d);
    tp_reader *r = d && n > 0 ? tp_reader_new(d, 0, 1) : NULL;
    tp_tensor *fields[TP_MAX_FIELDS] = {0};
    if (r && tp_reader_ask(r, TP_INTS(0, n - 1)) && tp_reader_take(r, fields))
        for (int i = 0; i < TP_MAX_FIELDS; i++) {
            fuzz_touch(fields[i]);
            tp_release(fields[i]);
        }
    tp_reader_free(r);
    tp_dataset_release(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const names[] = {"x", "y"};
    fuzz_begin();
    if (!n) return -1;
    const char *path = fuzz_path(data + 1, n - 1);
    switch (data[0] % 4) {
    case 0: look_at(tp_dataset_cifar(1, &path, 10)); break;
    case 1: look_at(tp_dataset_cifar(1, &path, 100)); break;
    case 2: look_at(tp_dataset_mnist(path, path)); break;
    default: look_at(tp_dataset_of_file(path, 2, names)); break;
    }
    return 0;
}
