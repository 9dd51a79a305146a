/* Every layer's text, with its defaults and without. The same under LibTorch: layers.expected is its output. */
#include <torch/torch.h>
#include <iostream>

using namespace torch::nn;

template <class Layer> void show(const Layer &layer) { std::cout << layer << "\n"; }

int main() {
    show(Linear(2, 3));
    show(Linear(LinearOptions(2, 3).bias(false)));
    show(Bilinear(2, 3, 4));
    show(Identity());
    show(Flatten());
    show(Flatten(FlattenOptions().start_dim(2).end_dim(3)));
    show(Unflatten(UnflattenOptions(1, {2, 3})));
    show(Conv1d(1, 2, 3));
    show(Conv1d(
        Conv1dOptions(2, 2, 3).stride(2).padding(1).dilation(2).groups(2).bias(false).padding_mode(torch::kReflect)));
    show(Conv2d(1, 2, 3));
    show(Conv2d(Conv2dOptions(2, 2, {3, 4})
                    .stride({2, 1})
                    .padding({1, 2})
                    .dilation({2, 1})
                    .groups(2)
                    .padding_mode(torch::kReplicate)));
    show(Conv2d(Conv2dOptions(2, 2, 3).padding(torch::kValid)));
    show(Conv3d(1, 2, 3));
    show(ConvTranspose1d(1, 2, 3));
    show(ConvTranspose2d(ConvTranspose2dOptions(2, 2, 3).stride(2).padding(1).output_padding(1).dilation(2).groups(2)));
    show(ConvTranspose3d(1, 2, 3));
    show(BatchNorm1d(3));
    show(BatchNorm2d(BatchNorm2dOptions(3).momentum(0.3).affine(false).track_running_stats(false)));
    show(BatchNorm3d(3));
    show(InstanceNorm1d(3));
    show(InstanceNorm2d(InstanceNorm2dOptions(3).affine(true).eps(1e-3)));
    show(InstanceNorm3d(2));
    show(LayerNorm(LayerNormOptions({3})));
    show(LayerNorm(LayerNormOptions({3, 4}).elementwise_affine(false)));
    show(GroupNorm(2, 4));
    show(GroupNorm(GroupNormOptions(2, 4).affine(false).eps(0.1)));
    show(LocalResponseNorm(2));
    show(LocalResponseNorm(LocalResponseNormOptions(2).alpha(0.1).beta(0.5).k(2)));
    show(CrossMapLRN2d(2));
    show(MaxPool1d(2));
    show(MaxPool2d(2));
    show(MaxPool2d(MaxPool2dOptions({2, 3}).stride(1).padding(1).dilation(2).ceil_mode(true)));
    show(MaxPool3d(2));
    show(AvgPool1d(2));
    show(AvgPool2d(2));
    show(AvgPool2d(AvgPool2dOptions(2).stride(1).padding(1).ceil_mode(true).count_include_pad(false)));
    show(AvgPool3d(2));
    show(AdaptiveMaxPool1d(2));
    show(AdaptiveMaxPool2d(2));
    show(AdaptiveMaxPool3d(2));
    show(AdaptiveAvgPool1d(2));
    show(AdaptiveAvgPool2d(2));
    show(AdaptiveAvgPool3d(2));
    show(MaxUnpool1d(2));
    show(MaxUnpool2d(MaxUnpool2dOptions(2).stride(3).padding(1)));
    show(MaxUnpool3d(2));
    show(LPPool1d(2, 3));
    show(LPPool2d(1.5, 3));
    show(LPPool2d(LPPool2dOptions(2, {3, 2}).stride(1).ceil_mode(true)));
    show(LPPool3d(2, 3));
    show(FractionalMaxPool2d(FractionalMaxPool2dOptions(2).output_size(3)));
    show(Embedding(4, 2));
    show(Embedding(
        EmbeddingOptions(4, 2).padding_idx(1).max_norm(2).norm_type(1.5).scale_grad_by_freq(true).sparse(true)));
    show(EmbeddingBag(4, 2));
    show(RNN(2, 3));
    show(RNN(RNNOptions(2, 3)
                 .num_layers(2)
                 .nonlinearity(torch::kReLU)
                 .bias(false)
                 .batch_first(true)
                 .dropout(0.5)
                 .bidirectional(true)));
    show(LSTM(2, 3));
    show(LSTM(LSTMOptions(2, 3).num_layers(2).proj_size(1).dropout(0.25)));
    show(GRU(2, 3));
    show(RNNCell(2, 3));
    show(RNNCell(RNNCellOptions(2, 3).bias(false).nonlinearity(torch::kReLU)));
    show(LSTMCell(2, 3));
    show(LSTMCell(LSTMCellOptions(2, 3).bias(false)));
    show(GRUCell(2, 3));
    show(ELU());
    show(ELU(ELUOptions().alpha(0.5).inplace(true)));
    show(SELU());
    show(SELU(SELUOptions(true)));
    show(Hardshrink());
    show(Hardshrink(0.1));
    show(Hardtanh());
    show(Hardtanh(HardtanhOptions().min_val(-2).max_val(0.5).inplace(true)));
    show(LeakyReLU());
    show(LeakyReLU(LeakyReLUOptions().negative_slope(0.2).inplace(true)));
    show(LogSigmoid());
    show(Softmax(1));
    show(Softmin(1));
    show(LogSoftmax(1));
    show(Softmax2d());
    show(PReLU());
    show(PReLU(PReLUOptions().num_parameters(3)));
    show(ReLU());
    show(ReLU(ReLUOptions(true)));
    show(ReLU6());
    show(ReLU6(true));
    show(RReLU());
    show(RReLU(RReLUOptions().lower(0.1).upper(0.5).inplace(true)));
    show(CELU());
    show(CELU(CELUOptions().alpha(2.5)));
    show(GLU());
    show(GLU(1));
    show(GELU());
    show(GELU(GELUOptions().approximate("tanh")));
    show(SiLU());
    show(Mish());
    show(Sigmoid());
    show(Softplus());
    show(Softplus(SoftplusOptions().beta(0.5).threshold(3)));
    show(Softshrink());
    show(Softshrink(0.25));
    show(Softsign());
    show(Tanh());
    show(Tanhshrink());
    show(Threshold(1, 2.5));
    show(Threshold(ThresholdOptions(1, 2.5).inplace(true)));
    show(Dropout());
    show(Dropout(DropoutOptions(0.25).inplace(true)));
    show(Dropout2d());
    show(Dropout3d());
    show(AlphaDropout());
    show(FeatureAlphaDropout(0.1));
    show(ReflectionPad1d(2));
    show(ReflectionPad2d(ReflectionPad2dOptions({1, 2, 3, 4})));
    show(ReplicationPad1d(1));
    show(ReplicationPad2d(2));
    show(ReplicationPad3d(1));
    show(ZeroPad2d(1));
    show(ConstantPad1d(1, 2.5));
    show(ConstantPad2d(1, 2.5));
    show(ConstantPad3d(1, 2));
    show(ZeroPad1d(1));
    show(ZeroPad3d(1));
    show(ReflectionPad3d(1));
    show(PixelShuffle(2));
    show(PixelUnshuffle(2));
    show(Upsample(UpsampleOptions().size(std::vector<int64_t>({4, 5}))));
    show(Upsample(
        UpsampleOptions().scale_factor(std::vector<double>({2, 1.5})).mode(torch::kBicubic).align_corners(false)));
    show(Fold(FoldOptions({4, 5}, {2, 2})));
    show(Fold(FoldOptions(4, 2).dilation(2).padding(1).stride(3)));
    show(Unfold(2));
    show(Unfold(UnfoldOptions({2, 3}).dilation(2).padding(1).stride(3)));
    show(L1Loss());
    show(MSELoss());
    show(KLDivLoss());
    show(BCELoss());
    show(MultiLabelMarginLoss());
    show(SoftMarginLoss());
    show(MultiLabelSoftMarginLoss());
    show(CTCLoss());
    show(PoissonNLLLoss());
    show(MarginRankingLoss());
    show(NLLLoss());
    show(CrossEntropyLoss());
    show(BCEWithLogitsLoss());
    show(TripletMarginWithDistanceLoss());
    show(MultiheadAttention(4, 2));
    show(TransformerEncoderLayer(4, 2));
    show(TransformerEncoder(TransformerEncoderOptions(TransformerEncoderLayerOptions(4, 2), 2)));
    show(TransformerDecoderLayer(4, 2));
    show(AdaptiveLogSoftmaxWithLoss(AdaptiveLogSoftmaxWithLossOptions(16, 10, {2, 5})));
    show(Functional(torch::relu));
    show(Sequential(Linear(1, 1), Functional(torch::relu)));
}
