/* Programs written for LibTorch include this, and run on Taper. */
#pragma once
#include <torch/types.h>
#include <iostream>
