! Taper for Fortran: the C API's functions under their own names, and the few lines that make tensors of Fortran's arrays.
!
! Compile this file with your program and link with -ltaper (a .mod file fits one compiler only, so the source is what is installed).
! An array is seen without a copy, with its dimensions in reverse: x(features, rows) is a tensor of shape (rows, features), as C's memory order is the
! other one. Handles are of type(c_ptr); a NULL among the arguments makes the result NULL, so that a chain of calls is checked once, with tp_ok.
! Results of calls between tp_scope_open and tp_scope_close are released there; modules, optimisers and tensors over arrays are the program's.
module taper
    use, intrinsic :: iso_c_binding
    implicit none

    integer(c_int), parameter :: tp_float32 = 9, tp_float64 = 10, tp_int64 = 6
    integer(c_int), parameter :: tp_reduce_sum = 0, tp_reduce_avg = 1, tp_reduce_min = 3, tp_reduce_max = 4

    type, bind(c) :: tp_list ! C's tp_tensors, tp_ints: an array and its length
        type(c_ptr) :: v = c_null_ptr
        integer(c_int64_t) :: n = 0
    end type
    type, bind(c) :: tp_state ! named tensors
        type(c_ptr) :: names = c_null_ptr, tensors = c_null_ptr
        integer(c_int64_t) :: n = 0
    end type
    type, bind(c) :: tp_scope
        integer(c_int64_t) :: mark = 0, depth = 0
    end type
    type, bind(c) :: tp_value ! an argument of tp_forward_one and tp_call_one: kind 1 is a tensor
        integer(c_int64_t) :: kind = 0
        type(c_ptr) :: name = c_null_ptr, tensor = c_null_ptr
        integer(c_int64_t) :: rest(2) = 0
    end type
    type, bind(c) :: tp_sgd_options
        integer(c_int64_t) :: bytes = 48
        real(c_double) :: lr = 1d-3, momentum = 0, dampening = 0, weight_decay = 0
        logical(c_bool) :: nesterov = .false., maximize = .false.
    end type

    interface
        function tp_error_c() bind(c, name="tp_error") result(text)
            import; type(c_ptr) :: text
        end function
        logical(c_bool) function tp_ok() bind(c)
            import
        end function
        subroutine tp_error_clear() bind(c)
        end subroutine
        function tp_scope_open() bind(c) result(scope)
            import; type(tp_scope) :: scope
        end function
        subroutine tp_scope_close(scope) bind(c)
            import; type(tp_scope) :: scope
        end subroutine
        subroutine tp_release(t) bind(c)
            import; type(c_ptr), value :: t
        end subroutine
        function tp_own(t) bind(c) result(same)
            import; type(c_ptr), value :: t; type(c_ptr) :: same
        end function
        function tp_data(t) bind(c) result(at)
            import; type(c_ptr), value :: t; type(c_ptr) :: at
        end function
        integer(c_int64_t) function tp_numel(t) bind(c)
            import; type(c_ptr), value :: t
        end function
        real(c_double) function tp_item(t) bind(c)
            import; type(c_ptr), value :: t
        end function
        function tp_over_data(at, dtype, shape, strides, release, context) bind(c) result(t)
            import; type(c_ptr), value :: at, context; integer(c_int), value :: dtype
            type(tp_list), value :: shape, strides
            type(c_funptr), value :: release; type(c_ptr) :: t
        end function
        subroutine tp_manual_seed(seed) bind(c)
            import; integer(c_int64_t), value :: seed
        end subroutine
        ! modules and training
        function tp_nn_linear(in_features, out_features, options) bind(c, name="tp_nn_linear_with") result(m)
            import; integer(c_int64_t), value :: in_features, out_features; type(c_ptr), value :: options; type(c_ptr) :: m
        end function
        function tp_nn_tanh() bind(c) result(m)
            import; type(c_ptr) :: m
        end function
        function tp_nn_relu(options) bind(c, name="tp_nn_relu_with") result(m)
            import; type(c_ptr), value :: options; type(c_ptr) :: m
        end function
        function tp_nn_sequential_of(n, modules) bind(c) result(m)
            import; integer(c_int64_t), value :: n; type(c_ptr), intent(in) :: modules(*); type(c_ptr) :: m
        end function
        subroutine tp_module_release(m) bind(c)
            import; type(c_ptr), value :: m
        end subroutine
        function tp_module_parameters(m) bind(c) result(named)
            import; type(c_ptr), value :: m; type(tp_state) :: named
        end function
        subroutine tp_state_free(named) bind(c)
            import; type(tp_state), value :: named
        end subroutine
        function tp_forward_one(m, n, values) bind(c) result(y)
            import; type(c_ptr), value :: m; integer(c_int64_t), value :: n
            type(tp_value), intent(in) :: values(*); type(c_ptr) :: y
        end function
        function tp_call_one(name, n, values) bind(c) result(y)
            import; character(kind=c_char), intent(in) :: name(*); integer(c_int64_t), value :: n
            type(tp_value), intent(in) :: values(*); type(c_ptr) :: y
        end function
        function tp_mse_loss(input, target, options) bind(c, name="tp_mse_loss_with") result(loss)
            import; type(c_ptr), value :: input, target, options; type(c_ptr) :: loss
        end function
        logical(c_bool) function tp_backward(root, options) bind(c, name="tp_backward_with")
            import; type(c_ptr), value :: root, options
        end function
        function tp_sgd(params, options) bind(c, name="tp_sgd_with") result(o)
            import; type(tp_list), value :: params; type(tp_sgd_options), intent(in) :: options; type(c_ptr) :: o
        end function
        logical(c_bool) function tp_optimiser_zero_grad(o) bind(c)
            import; type(c_ptr), value :: o
        end function
        logical(c_bool) function tp_step(o) bind(c)
            import; type(c_ptr), value :: o
        end function
        subroutine tp_optimiser_free(o) bind(c)
            import; type(c_ptr), value :: o
        end subroutine
        ! process groups
        logical(c_bool) function tp_dist_init(options) bind(c, name="tp_dist_init_with")
            import; type(c_ptr), value :: options
        end function
        subroutine tp_dist_end() bind(c)
        end subroutine
        integer(c_int) function tp_group_rank(group) bind(c)
            import; type(c_ptr), value :: group
        end function
        integer(c_int) function tp_group_size(group) bind(c)
            import; type(c_ptr), value :: group
        end function
        function tp_dist_all_reduce(group, t, op) bind(c) result(work)
            import; type(c_ptr), value :: group, t; integer(c_int), value :: op; type(c_ptr) :: work
        end function
        function tp_dist_broadcast(group, t, root) bind(c) result(work)
            import; type(c_ptr), value :: group, t; integer(c_int), value :: root; type(c_ptr) :: work
        end function
        logical(c_bool) function tp_dist_wait(work) bind(c)
            import; type(c_ptr), value :: work
        end function
        function tp_ddp_new(net, options) bind(c, name="tp_ddp_new_with") result(ddp)
            import; type(c_ptr), value :: net, options; type(c_ptr) :: ddp
        end function
        logical(c_bool) function tp_ddp_finish(ddp) bind(c)
            import; type(c_ptr), value :: ddp
        end function
        subroutine tp_ddp_free(ddp) bind(c)
            import; type(c_ptr), value :: ddp
        end subroutine
    end interface

    interface taper_over ! a tensor over an array, without a copy; the array must outlive it and have the target attribute
        module procedure over_r4_1, over_r4_2, over_r8_1, over_r8_2
    end interface

contains

    function over(at, dtype, dims) result(t) ! dims: Fortran's, first the one that runs fastest
        type(c_ptr), intent(in) :: at
        integer(c_int), intent(in) :: dtype
        integer(c_int64_t), intent(in) :: dims(:)
        integer(c_int64_t), target :: reversed(size(dims))
        type(c_ptr) :: t
        reversed = dims(size(dims):1:-1)
        t = tp_own(tp_over_data(at, dtype, tp_list(c_loc(reversed), size(dims, kind=c_int64_t)), tp_list(), &
                                c_null_funptr, c_null_ptr))
    end function
    function over_r4_1(x) result(t)
        real(c_float), intent(in), target, contiguous :: x(:)
        type(c_ptr) :: t
        t = over(c_loc(x), tp_float32, shape(x, kind=c_int64_t))
    end function
    function over_r4_2(x) result(t)
        real(c_float), intent(in), target, contiguous :: x(:, :)
        type(c_ptr) :: t
        t = over(c_loc(x), tp_float32, shape(x, kind=c_int64_t))
    end function
    function over_r8_1(x) result(t)
        real(c_double), intent(in), target, contiguous :: x(:)
        type(c_ptr) :: t
        t = over(c_loc(x), tp_float64, shape(x, kind=c_int64_t))
    end function
    function over_r8_2(x) result(t)
        real(c_double), intent(in), target, contiguous :: x(:, :)
        type(c_ptr) :: t
        t = over(c_loc(x), tp_float64, shape(x, kind=c_int64_t))
    end function

    function taper_forward(net, x) result(y) ! a network's output for one tensor
        type(c_ptr), intent(in) :: net, x
        type(c_ptr) :: y
        y = tp_forward_one(net, 1_c_int64_t, [tp_value(kind=1, tensor=x)])
    end function

    function taper_message() result(text) ! the pending error's
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: bytes(:)
        type(c_ptr) :: at
        integer :: i
        at = tp_error_c()
        text = ""
        if (.not. c_associated(at)) return
        call c_f_pointer(at, bytes, [4096])
        do i = 1, 4096
            if (bytes(i) == c_null_char) exit
            text = text // bytes(i)
        end do
    end function
end module taper
