// The first program of clusters' LibTorch pages (that of the Digital Research Alliance of Canada among them): takes a
// GPU if there is one, draws a tensor there and prints it. Its CMakeLists.txt says find_package(Torch REQUIRED) and
// target_link_libraries(device "${TORCH_LIBRARIES}"), as with LibTorch; tests/install_test.sh builds it so.
#include <iostream>
#include <torch/torch.h>

int main() {
    const torch::Device device(torch::cuda::is_available() ? torch::kCUDA : torch::kCPU);
    std::cout << "on " << device << std::endl;
    torch::manual_seed(0);
    torch::Tensor tensor = torch::rand({2, 3}).to(device);
    std::cout << tensor << std::endl;
}
