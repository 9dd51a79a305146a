/* Sequences of different lengths: padded to one tensor, or packed step by step for recurrent layers. As PyTorch's
 * torch.nn.utils.rnn.
 *
 *     tp_packed packed = tp_pack_padded_sequence(batch, lengths, false, false);
 *     tp_packed steps = tp_forward_packed(lstm, packed, NULL, NULL, &h, &c);
 *     tp_tensor *output = tp_pad_packed_sequence(steps, false, 0, TP_NONE, NULL);
 *
 * The tensors of a packed sequence belong to the scope, or to the caller, as results of operators do. */
#ifndef TAPER_SEQUENCE_H
#define TAPER_SEQUENCE_H
#include <taper/nn.h>

TP_BEGIN

typedef struct tp_packed {
    tp_tensor *data;             /* all steps one after the other: (steps of all sequences, ...); NULL: it failed */
    tp_tensor *batch_sizes;      /* how many sequences have a first, second, ... step: int64, on the CPU */
    tp_tensor *sorted_indices;   /* the sequences in order of length; NULL: they came so */
    tp_tensor *unsorted_indices; /* the way back; NULL with it */
} tp_packed;

/* One tensor (longest, n, ...) from n tensors (length, ...); (n, longest, ...) with batch_first. */
TP_API tp_tensor *tp_pad_sequence(tp_tensors sequences, bool batch_first, double padding_value);
/* lengths: int64, one for each sequence of input. With enforce_sorted they must fall. */
TP_API tp_packed tp_pack_padded_sequence(tp_tensor *input, tp_tensor *lengths, bool batch_first, bool enforce_sorted);
TP_API tp_packed tp_pack_sequence(tp_tensors sequences, bool enforce_sorted);
/* total_length TP_NONE: that of the longest. lengths gets an int64 tensor; it may be NULL. */
TP_API tp_tensor *tp_pad_packed_sequence(tp_packed packed, bool batch_first, double padding_value, int64_t total_length,
                                         tp_tensor **lengths);
/* Fills sequences with as many tensors as lengths has. */
TP_API bool tp_unpad_sequence(tp_tensor *padded, tp_tensor *lengths, bool batch_first, tp_tensor **sequences);
TP_API void tp_packed_release(tp_packed packed); /* outside of scopes; a failed one is fine */

/* An RNN, GRU or LSTM over a packed sequence. h_0 and c_0 (of an LSTM) may be NULL: zeros; h_n and c_n may be NULL: not
 * wanted. States are (layers, sequences, size), in the order in which the sequences came. */
TP_API tp_packed tp_forward_packed(tp_module *m, tp_packed packed, tp_tensor *h_0, tp_tensor *c_0, tp_tensor **h_n,
                                   tp_tensor **c_n);

/* Where each number of a permutation stands; what sorts back what sorted_indices sorted. */
TP_API tp_tensor *tp_invert_permutation(tp_tensor *permutation);

TP_END
#endif
