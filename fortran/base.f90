! Taper for Fortran, the foundation: tensors, scopes, errors, and how a call's arguments are boxed.
!
! A tp_tensor variable owns a reference to its tensor: assignment shares the tensor, and the variable's end releases it. The result of
! a function belongs to the innermost scope, never to the result itself, so that compilers that finalise function results and those that
! do not behave alike. Where the program has opened no scope, one is opened for the thread and lasts until tp_free_temporaries.
!
! Names that begin with tpf_ are the module's own.
module taper_base
    use, intrinsic :: iso_c_binding
    implicit none
    public

    integer, parameter :: tp_bool = 1, tp_uint8 = 2, tp_int8 = 3, tp_int16 = 4, tp_int32 = 5, tp_int64 = 6, tp_float16 = 7, &
        tp_bfloat16 = 8, tp_float32 = 9, tp_float64 = 10, tp_complex64 = 11, tp_complex128 = 12
    integer, parameter :: tp_layout_preserve = 0, tp_layout_contiguous = 1, tp_layout_channels_last = 2, &
        tp_layout_channels_last_3d = 3
    integer, parameter :: tpf_k_tensor = 1, tpf_k_tensors = 2, tpf_k_scalar = 3, tpf_k_ints = 4, tpf_k_string = 5, &
        tpf_k_dtype = 6, tpf_k_device = 7, tpf_k_generator = 8, tpf_k_layout = 9, tpf_k_floats = 10, tpf_k_scalars = 11
    integer, parameter :: tpf_err_value = 1, tpf_err_type = 2
    real(c_double), parameter :: tpf_infinity = transfer(int(z"7FF0000000000000", c_int64_t), 0._c_double)
    real(c_double), parameter :: tpf_no_float = transfer(int(z"7FF8000000000001", c_int64_t), 0._c_double)
    integer(c_int64_t), parameter :: tpf_none = -huge(0_c_int64_t) - 1_c_int64_t ! C's TP_NONE

    ! ---- C's structs ----
    type, bind(c) :: tpf_list ! tp_ints, tp_floats, tp_tensors: an array and its length
        type(c_ptr) :: v
        integer(c_int64_t) :: n
    end type
    type, bind(c) :: tpf_value ! tp_value: the union is three words
        integer(c_int64_t) :: kind
        type(c_ptr) :: name
        integer(c_int64_t) :: word(3)
    end type
    type, bind(c) :: tpf_scalar
        integer(c_int64_t) :: kind, word(2)
    end type
    type, bind(c) :: tpf_device
        integer(c_int16_t) :: kind, index
    end type
    type, bind(c) :: tpf_scope
        integer(c_int64_t) :: mark, depth
    end type
    type, bind(c) :: tpf_grad_mode
        logical(c_bool) :: grad_off, inference
    end type
    type, bind(c) :: tpf_backward_options
        integer(c_int64_t) :: bytes
        type(c_ptr) :: gradient
        logical(c_bool) :: retain_graph, create_graph
        type(tpf_list) :: inputs
    end type
    type, bind(c) :: tpf_grad_options
        integer(c_int64_t) :: bytes
        logical(c_bool) :: retain_graph, create_graph, allow_unused, materialize_grads, stop_at_inputs
    end type
    type, bind(c) :: tpf_operator_head ! the beginning of tp_operator
        type(c_ptr) :: name, signature, doc, kind
        integer(c_int64_t) :: nargs, nresults
        type(c_ptr) :: args, results
        logical(c_bool) :: differentiable, inplace, has_out, method
        type(c_funptr) :: invoke, invoke_inplace, invoke_out
    end type

    ! ---- the arguments of one call, with the memory that lists and texts are in until it returns ----
    type :: tpf_slot
        integer(c_int64_t), allocatable :: words(:)
    end type
    type :: tpf_frame
        integer :: n = 0, used = 0
        type(tpf_value) :: v(24)
        type(tpf_slot) :: slots(16)
    end type

    type :: tp_tensor
        type(c_ptr) :: handle = c_null_ptr ! C's tp_tensor *, for calls of the C API
        logical, private :: owned = .false.
    contains
        procedure, private :: assign => tpf_assign_tensor
        generic :: assignment(=) => assign
        procedure :: defined => tpf_defined           ! is there a tensor?
        procedure :: release => tpf_release_tensor    ! the variable lets go of it
        procedure :: hand_over => tpf_hand_over       ! of a function's result: to the innermost scope, for compilers that finalise no results
        procedure :: ndim => tpf_ndim
        procedure :: shape => tpf_shape               ! PyTorch's order: the last dimension runs fastest
        procedure :: size => tpf_size                 ! of a dimension, counted from 0; negative ones from the end
        procedure :: numel => tpf_numel
        procedure :: dtype => tpf_dtype
        procedure :: item => tpf_item                 ! the one element as a real(c_double)
        procedure :: requires_grad => tpf_requires_grad
        procedure :: set_requires_grad => tpf_set_requires_grad
        procedure :: grad => tpf_grad                 ! not defined() while there is none
        procedure :: zero_grad => tpf_zero_grad
        procedure :: backward => tpf_backward
        procedure :: print => tpf_print
        procedure :: text => tpf_text                 ! what PyTorch prints
        final :: tpf_final_tensor
    end type

    type :: tp_scope ! call scope%open(); results of calls until scope%close(), or the variable's end, are released there
        type(tpf_scope), private :: state
        logical, private :: is_open = .false.
    contains
        procedure :: open => tpf_open_scope
        procedure :: close => tpf_close_scope
        final :: tpf_final_scope
    end type

    type :: tp_no_grad ! call off%begin(); nothing is recorded until off%end(), or the variable's end
        type(tpf_grad_mode), private :: before
        logical, private :: is_open = .false.
    contains
        procedure :: begin => tpf_begin_no_grad
        procedure :: end => tpf_end_no_grad
        final :: tpf_final_no_grad
    end type

    type :: tp_generator ! random numbers; one that was not made is the default one
        type(c_ptr) :: handle = c_null_ptr
    end type

    interface
        subroutine tp_error_clear() bind(c, name="tp_error_clear")
        end subroutine
        function tpf_c_strlen(text) bind(c, name="strlen") result(n)
            import
            type(c_ptr), value :: text
            integer(c_size_t) :: n
        end function
        !from_c tp_error tp_error_code tp_ok tp_error_leave tp_scope_open tp_scope_close tp_retain tp_release tp_ndim tp_size
        !from_c tp_numel tp_dtype_of tp_item tp_data tp_is_contiguous tp_copy_out tp_over_data tp_new tp_requires_grad
        !from_c tp_set_requires_grad tp_grad tp_zero_grad tp_backward_with tp_gradients tp_grad_mode_enter tp_grad_mode_leave
        !from_c tp_format tp_dtype_name tp_call_values tp_find_operator tp_device_type_name tp_manual_seed tp_set_num_threads
    end interface
    abstract interface
        function tpf_invoke_out(out, args) bind(c) result(ok)
            import
            type(c_ptr), value :: out
            type(tpf_value), intent(in) :: args(*)
            logical(c_bool) :: ok
        end function
    end interface

contains

    ! ---- errors: the first one of a thread stays until tp_error_clear, and calls that are given nothing give nothing ----
    function tp_ok() result(ok)
        logical :: ok
        ok = tpf_c_ok()
    end function

    function tp_error() result(text) ! the pending error's message; empty: there is none
        character(len=:), allocatable :: text
        text = tpf_text_at(tpf_c_error())
    end function

    function tp_error_code() result(code)
        integer :: code
        code = int(tpf_c_error_code())
    end function

    subroutine tp_check(what) ! ends the program with the message where an error stands
        character(len=*), intent(in) :: what
        if (tp_ok()) return
        write (*, "(a, a, a)") what, ": ", tp_error()
        error stop 1
    end subroutine

    subroutine tpf_fail(code, message)
        integer, intent(in) :: code
        character(len=*), intent(in) :: message
        logical(c_bool) :: never
        never = tpf_c_error_leave(int(code, c_int), message // c_null_char)
    end subroutine

    function tpf_text_at(at) result(text) ! of a C string; NULL is empty
        type(c_ptr), intent(in) :: at
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: bytes(:)
        integer :: i, n
        if (.not. c_associated(at)) then
            text = ""
            return
        end if
        n = int(tpf_c_strlen(at))
        call c_f_pointer(at, bytes, [n])
        allocate (character(len=n) :: text)
        do i = 1, n
            text(i:i) = bytes(i)
        end do
    end function

    ! ---- scopes ----
    ! Results need a scope to belong to: the thread's first stays open.
    subroutine tpf_need_scope()
        type(tpf_scope) :: here
        here = tpf_c_scope_open()
        if (here%depth /= 1) call tpf_c_scope_close(here)
    end subroutine

    subroutine tp_free_temporaries() ! all scopes of the thread end: for programs without scopes of their own
        type(tpf_scope) :: all
        all%mark = 0
        all%depth = 1
        call tpf_c_scope_close(all)
    end subroutine

    subroutine tpf_open_scope(scope)
        class(tp_scope), intent(inout) :: scope
        call tpf_need_scope()
        if (scope%is_open) call tpf_c_scope_close(scope%state)
        scope%state = tpf_c_scope_open()
        scope%is_open = .true.
    end subroutine
    subroutine tpf_close_scope(scope)
        class(tp_scope), intent(inout) :: scope
        if (scope%is_open) call tpf_c_scope_close(scope%state)
        scope%is_open = .false.
    end subroutine
    subroutine tpf_final_scope(scope)
        type(tp_scope), intent(inout) :: scope
        call scope%close()
    end subroutine

    subroutine tpf_begin_no_grad(mode)
        class(tp_no_grad), intent(inout) :: mode
        if (mode%is_open) return
        mode%before = tpf_c_grad_mode_enter(.false._c_bool, .false._c_bool)
        mode%is_open = .true.
    end subroutine
    subroutine tpf_end_no_grad(mode)
        class(tp_no_grad), intent(inout) :: mode
        if (mode%is_open) call tpf_c_grad_mode_leave(mode%before)
        mode%is_open = .false.
    end subroutine
    subroutine tpf_final_no_grad(mode)
        type(tp_no_grad), intent(inout) :: mode
        call mode%end()
    end subroutine

    ! ---- tensors as variables ----
    impure elemental subroutine tpf_assign_tensor(to, from)
        class(tp_tensor), intent(inout) :: to
        type(tp_tensor), intent(in) :: from
        type(c_ptr) :: fresh
        fresh = c_null_ptr
        if (c_associated(from%handle)) fresh = tpf_c_retain(from%handle)
        if (to%owned) call tpf_c_release(to%handle)
        to%handle = fresh
        to%owned = c_associated(fresh)
    end subroutine
    impure elemental subroutine tpf_final_tensor(t)
        type(tp_tensor), intent(inout) :: t
        call t%release()
    end subroutine
    impure elemental subroutine tpf_release_tensor(t)
        class(tp_tensor), intent(inout) :: t
        if (t%owned) call tpf_c_release(t%handle)
        t%handle = c_null_ptr
        t%owned = .false.
    end subroutine
    function tpf_borrowed(at) result(t) ! for pointers that C lends, and results that a scope owns
        type(c_ptr), intent(in) :: at
        type(tp_tensor) :: t
        t%handle = at
    end function
    subroutine tpf_hand_over(t)
        class(tp_tensor), intent(inout) :: t
        type(tp_tensor) :: again
        if (.not. t%owned) return
        again = tpf_alias(t)
        call tpf_c_release(t%handle)
        t%handle = again%handle
        t%owned = .false.
    end subroutine
    function tpf_alias(t) result(r) ! the same elements and history under a handle that the innermost scope owns
        class(tp_tensor), intent(in) :: t
        type(tp_tensor) :: r
        type(tpf_frame), target :: f
        call tpf_put_handle(f, t%handle)
        r%handle = tpf_one(f, "alias" // c_null_char)
    end function

    elemental function tpf_defined(t) result(yes)
        class(tp_tensor), intent(in) :: t
        logical :: yes
        yes = c_associated(t%handle)
    end function
    function tpf_ndim(t) result(n)
        class(tp_tensor), intent(in) :: t
        integer :: n
        n = int(tpf_c_ndim(t%handle))
    end function
    function tpf_shape(t) result(shape)
        class(tp_tensor), intent(in) :: t
        integer, allocatable :: shape(:)
        integer :: i, n
        n = max(0, t%ndim())
        allocate (shape(n))
        do i = 1, n
            shape(i) = int(tpf_c_size(t%handle, int(i - 1, c_int64_t)))
        end do
    end function
    function tpf_size(t, dim) result(n)
        class(tp_tensor), intent(in) :: t
        integer, intent(in) :: dim
        integer(c_int64_t) :: n
        n = tpf_c_size(t%handle, int(dim, c_int64_t))
    end function
    function tpf_numel(t) result(n)
        class(tp_tensor), intent(in) :: t
        integer(c_int64_t) :: n
        n = tpf_c_numel(t%handle)
    end function
    function tpf_dtype(t) result(dtype)
        class(tp_tensor), intent(in) :: t
        integer :: dtype
        dtype = int(tpf_c_dtype_of(t%handle))
    end function
    function tpf_item(t) result(x)
        class(tp_tensor), intent(in) :: t
        real(c_double) :: x
        x = tpf_c_item(t%handle)
    end function
    function tpf_text(t) result(text)
        class(tp_tensor), intent(in) :: t
        character(len=:), allocatable :: text
        character(kind=c_char) :: none(1)
        integer(c_int64_t) :: n
        n = tpf_c_format(t%handle, none, 0_c_size_t)
        text = ""
        if (n > 0) text = tpf_formatted(t, n)
    end function
    function tpf_formatted(t, n) result(text)
        class(tp_tensor), intent(in) :: t
        integer(c_int64_t), intent(in) :: n
        character(len=n) :: text
        character(kind=c_char) :: bytes(n + 1)
        integer(c_int64_t) :: i, again
        again = tpf_c_format(t%handle, bytes, int(n + 1, c_size_t))
        do i = 1, min(n, again)
            text(i:i) = bytes(i)
        end do
    end function
    subroutine tpf_print(t)
        class(tp_tensor), intent(in) :: t
        write (*, "(a)") t%text()
    end subroutine

    ! ---- gradients ----
    function tpf_requires_grad(t) result(yes)
        class(tp_tensor), intent(in) :: t
        logical :: yes
        yes = tpf_c_requires_grad(t%handle)
    end function
    subroutine tpf_set_requires_grad(t, on)
        class(tp_tensor), intent(in) :: t
        logical, intent(in), optional :: on
        type(c_ptr) :: same
        logical(c_bool) :: value
        value = .true.
        if (present(on)) value = on
        same = tpf_c_set_requires_grad(t%handle, value)
    end subroutine
    function tpf_grad(t) result(grad)
        class(tp_tensor), intent(in) :: t
        type(tp_tensor) :: grad
        grad%handle = tpf_c_grad(t%handle)
    end function
    subroutine tpf_zero_grad(t)
        class(tp_tensor), intent(in) :: t
        logical(c_bool) :: ok
        ok = tpf_c_zero_grad(t%handle)
    end subroutine
    subroutine tpf_backward(t, gradient, retain_graph, create_graph)
        class(tp_tensor), intent(in) :: t
        type(tp_tensor), intent(in), optional :: gradient
        logical, intent(in), optional :: retain_graph, create_graph
        type(tpf_backward_options) :: o
        logical(c_bool) :: ok
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%gradient = c_null_ptr
        if (present(gradient)) o%gradient = gradient%handle
        o%retain_graph = tpf_truth(retain_graph, .false.)
        o%create_graph = tpf_truth(create_graph, .false.)
        o%inputs = tpf_list(c_null_ptr, 0)
        ok = tpf_c_backward_with(t%handle, o)
    end subroutine
    subroutine tp_backward(loss, gradient, retain_graph, create_graph)
        type(tp_tensor), intent(in) :: loss
        type(tp_tensor), intent(in), optional :: gradient
        logical, intent(in), optional :: retain_graph, create_graph
        call tpf_backward(loss, gradient, retain_graph, create_graph)
    end subroutine
    ! Gradients of outputs with respect to inputs, without touching anybody's grad().
    subroutine tp_gradients(outputs, inputs, grads, retain_graph, create_graph, allow_unused)
        type(tp_tensor), intent(in) :: outputs(:), inputs(:)
        type(tp_tensor), allocatable, intent(inout) :: grads(:)
        logical, intent(in), optional :: retain_graph, create_graph, allow_unused
        type(tpf_grad_options) :: o
        type(tpf_frame), target :: f
        type(c_ptr) :: found(size(inputs))
        integer :: i
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%retain_graph = tpf_truth(retain_graph, .false.)
        o%create_graph = tpf_truth(create_graph, .false.)
        o%allow_unused = tpf_truth(allow_unused, .false.)
        o%materialize_grads = .false.
        o%stop_at_inputs = .false.
        if (allocated(grads)) deallocate (grads)
        allocate (grads(size(inputs)))
        call tpf_need_scope()
        if (.not. tpf_c_gradients(tpf_handles(f, outputs), tpf_handles(f, inputs), c_null_ptr, found, o)) return
        do i = 1, size(inputs)
            grads(i) = tpf_borrowed(found(i))
        end do
    end subroutine

    subroutine tp_manual_seed(seed)
        class(*), intent(in) :: seed
        call tpf_c_manual_seed(tpf_whole(seed, 0_c_int64_t))
    end subroutine
    subroutine tp_set_num_threads(n)
        integer, intent(in) :: n
        call tpf_c_set_num_threads(int(n, c_int))
    end subroutine

    ! ---- values that may not be given ----
    function tpf_truth(value, fallback) result(x)
        logical, intent(in), optional :: value
        logical, intent(in) :: fallback
        logical(c_bool) :: x
        x = fallback
        if (present(value)) x = value
    end function
    function tpf_maybe(value) result(x) ! C's "bool or none"
        logical, intent(in), optional :: value
        integer(c_int64_t) :: x
        x = tpf_none
        if (present(value)) x = merge(1_c_int64_t, 0_c_int64_t, value)
    end function
    function tpf_whole(value, fallback) result(x) ! an integer of any kind
        class(*), intent(in), optional :: value
        integer(c_int64_t), intent(in) :: fallback
        integer(c_int64_t) :: x
        type(tpf_scalar) :: s
        x = fallback
        if (.not. present(value)) return
        s = tpf_boxed(value)
        if (s%kind == 2) then
            x = s%word(1)
        else
            call tpf_fail(tpf_err_type, "expected an integer")
        end if
    end function
    function tpf_real(value, fallback) result(x) ! a number of any kind
        class(*), intent(in), optional :: value
        real(c_double), intent(in) :: fallback
        real(c_double) :: x
        type(tpf_scalar) :: s
        x = fallback
        if (.not. present(value)) return
        s = tpf_boxed(value)
        if (s%kind == 2) then
            x = real(s%word(1), c_double)
        else if (s%kind == 3) then
            x = transfer(s%word(1), x)
        else
            call tpf_fail(tpf_err_type, "expected a real or integer number")
        end if
    end function
    function tpf_boxed(value) result(s) ! C's tp_scalar; kind 0: it is no number
        class(*), intent(in) :: value
        type(tpf_scalar) :: s
        s%kind = 2
        s%word = 0
        select type (value)
        type is (integer(c_int8_t))
            s%word(1) = value
        type is (integer(c_int16_t))
            s%word(1) = value
        type is (integer(c_int32_t))
            s%word(1) = value
        type is (integer(c_int64_t))
            s%word(1) = value
        type is (real(c_float))
            s = tpf_pair(3, real(value, c_double), 0._c_double)
        type is (real(c_double))
            s = tpf_pair(3, value, 0._c_double)
        type is (complex(c_float_complex))
            s = tpf_pair(4, real(value, c_double), real(aimag(value), c_double))
        type is (complex(c_double_complex))
            s = tpf_pair(4, real(value), aimag(value))
        type is (logical)
            s%kind = 1
            if (value) s%word(1) = 1
        type is (logical(c_bool))
            s%kind = 1
            if (value) s%word(1) = 1
        class default
            s%kind = 0
        end select
    end function
    function tpf_pair(kind, re, im) result(s)
        integer, intent(in) :: kind
        real(c_double), intent(in) :: re, im
        type(tpf_scalar) :: s
        s%kind = kind
        s%word = [transfer(re, 0_c_int64_t), transfer(im, 0_c_int64_t)]
    end function
    function tpf_scalar_of(value, fallback) result(s) ! for options: fallback is none, or a number
        class(*), intent(in), optional :: value
        class(*), intent(in), optional :: fallback
        type(tpf_scalar) :: s
        s%kind = 0
        s%word = 0
        if (present(value)) then
            s = tpf_boxed(value)
            if (s%kind == 0) call tpf_fail(tpf_err_type, "expected a number")
        else if (present(fallback)) then
            s = tpf_boxed(fallback)
        end if
    end function
    function tpf_device_of(name) result(device) ! "cuda:1"; no name is the default device
        character(len=*), intent(in), optional :: name
        type(tpf_device) :: device
        integer :: colon, kind, status
        device = tpf_device(0, 0)
        if (.not. present(name)) return
        colon = index(name, ":")
        if (colon == 0) colon = len_trim(name) + 1
        do kind = 1, 6
            if (tpf_text_at(tpf_c_device_type_name(int(kind, c_int))) == name(:colon - 1)) device%kind = int(kind, c_int16_t)
        end do
        status = 0
        if (colon < len_trim(name)) read (name(colon + 1:), *, iostat=status) device%index
        if (device%kind == 0 .or. status /= 0) call tpf_fail(tpf_err_value, "no device is called '" // trim(name) // "'")
    end function

    ! ---- lists and texts in a frame's memory ----
    function tpf_keep(f, words) result(list)
        type(tpf_frame), intent(inout), target :: f
        integer(c_int64_t), intent(in) :: words(:)
        type(tpf_list) :: list
        list = tpf_list(c_null_ptr, 0)
        if (f%used >= size(f%slots)) then
            call tpf_fail(tpf_err_value, "too many lists in one call")
            return
        end if
        f%used = f%used + 1
        allocate (f%slots(f%used)%words(max(1, size(words)))) ! an empty list is not the same as none
        f%slots(f%used)%words(1) = 0
        f%slots(f%used)%words(:size(words)) = words
        list = tpf_list(c_loc(f%slots(f%used)%words), size(words, kind=c_int64_t))
    end function
    function tpf_text_of(f, text, fallback) result(at) ! a C string
        type(tpf_frame), intent(inout), target :: f
        character(len=*), intent(in), optional :: text, fallback
        type(c_ptr) :: at
        type(tpf_list) :: list
        at = c_null_ptr
        if (present(text)) then
            list = tpf_keep(f, tpf_packed(text))
            at = list%v
        else if (present(fallback)) then
            list = tpf_keep(f, tpf_packed(fallback))
            at = list%v
        end if
    end function
    function tpf_packed(text) result(words)
        character(len=*), intent(in) :: text
        integer(c_int64_t) :: words(len(text) / 8 + 1)
        character(len=8 * (len(text) / 8 + 1)) :: padded
        padded = text // repeat(c_null_char, 8)
        words = transfer(padded, words)
    end function
    function tpf_integers(f, value, fallback) result(list)
        type(tpf_frame), intent(inout), target :: f
        integer, intent(in), optional :: value(:)
        integer, intent(in), optional :: fallback(:)
        type(tpf_list) :: list
        list = tpf_list(c_null_ptr, 0)
        if (present(value)) then
            list = tpf_keep(f, int(value, c_int64_t))
        else if (present(fallback)) then
            list = tpf_keep(f, int(fallback, c_int64_t))
        end if
    end function
    function tpf_reals(f, value, fallback) result(list)
        type(tpf_frame), intent(inout), target :: f
        real(c_double), intent(in), optional :: value(:)
        real(c_double), intent(in), optional :: fallback(:)
        type(tpf_list) :: list
        list = tpf_list(c_null_ptr, 0)
        if (present(value)) then
            list = tpf_keep(f, transfer(value, [0_c_int64_t], size(value)))
        else if (present(fallback)) then
            list = tpf_keep(f, transfer(fallback, [0_c_int64_t], size(fallback)))
        end if
    end function
    function tpf_handles(f, tensors) result(list)
        type(tpf_frame), intent(inout), target :: f
        type(tp_tensor), intent(in), optional :: tensors(:)
        type(tpf_list) :: list
        integer(c_int64_t), allocatable :: words(:)
        integer :: i
        list = tpf_list(c_null_ptr, 0)
        if (.not. present(tensors)) return
        allocate (words(size(tensors)))
        do i = 1, size(tensors)
            words(i) = transfer(tensors(i)%handle, 0_c_int64_t)
        end do
        list = tpf_keep(f, words)
    end function
    function tpf_handle_of(t) result(at)
        type(tp_tensor), intent(in), optional :: t
        type(c_ptr) :: at
        at = c_null_ptr
        if (present(t)) at = t%handle
    end function

    ! ---- arguments, one after the other; what is not present takes its default ----
    subroutine tpf_put(f, kind, word1, word2, word3)
        type(tpf_frame), intent(inout) :: f
        integer, intent(in) :: kind
        integer(c_int64_t), intent(in) :: word1, word2, word3
        f%n = f%n + 1
        f%v(f%n)%kind = kind
        f%v(f%n)%name = c_null_ptr
        f%v(f%n)%word = [word1, word2, word3]
    end subroutine
    subroutine tpf_put_none(f)
        type(tpf_frame), intent(inout) :: f
        call tpf_put(f, 0, 0_c_int64_t, 0_c_int64_t, 0_c_int64_t)
    end subroutine
    subroutine tpf_put_handle(f, at)
        type(tpf_frame), intent(inout) :: f
        type(c_ptr), intent(in) :: at
        call tpf_put(f, tpf_k_tensor, transfer(at, 0_c_int64_t), 0_c_int64_t, 0_c_int64_t)
    end subroutine
    subroutine tpf_put_list(f, kind, list)
        type(tpf_frame), intent(inout) :: f
        integer, intent(in) :: kind
        type(tpf_list), intent(in) :: list
        call tpf_put(f, kind, transfer(list%v, 0_c_int64_t), list%n, 0_c_int64_t)
    end subroutine
    subroutine tpf_put_tensor(f, x)
        type(tpf_frame), intent(inout) :: f
        type(tp_tensor), intent(in), optional :: x
        if (present(x)) then
            call tpf_put_handle(f, x%handle)
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_tensors(f, x)
        type(tpf_frame), intent(inout), target :: f
        type(tp_tensor), intent(in), optional :: x(:)
        if (present(x)) then
            call tpf_put_list(f, tpf_k_tensors, tpf_handles(f, x))
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_number(f, x) ! a tensor, or a number of any kind
        type(tpf_frame), intent(inout) :: f
        class(*), intent(in), optional :: x
        type(tpf_scalar) :: s
        if (.not. present(x)) then
            call tpf_put_none(f)
            return
        end if
        select type (x)
        class is (tp_tensor)
            call tpf_put_handle(f, x%handle)
        class default
            s = tpf_boxed(x)
            if (s%kind == 0) call tpf_fail(tpf_err_type, "expected a tensor or a number")
            call tpf_put(f, tpf_k_scalar, s%kind, s%word(1), s%word(2))
        end select
    end subroutine
    subroutine tpf_put_truth(f, x)
        type(tpf_frame), intent(inout) :: f
        logical, intent(in), optional :: x
        if (present(x)) then
            call tpf_put(f, tpf_k_scalar, 1_c_int64_t, merge(1_c_int64_t, 0_c_int64_t, x), 0_c_int64_t)
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_integers(f, x)
        type(tpf_frame), intent(inout), target :: f
        integer, intent(in), optional :: x(:)
        if (present(x)) then
            call tpf_put_list(f, tpf_k_ints, tpf_keep(f, int(x, c_int64_t)))
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_truths(f, x)
        type(tpf_frame), intent(inout), target :: f
        logical, intent(in), optional :: x(:)
        if (present(x)) then
            call tpf_put_list(f, tpf_k_ints, tpf_keep(f, merge(1_c_int64_t, 0_c_int64_t, x)))
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_reals(f, x)
        type(tpf_frame), intent(inout), target :: f
        real(c_double), intent(in), optional :: x(:)
        if (present(x)) then
            call tpf_put_list(f, tpf_k_floats, tpf_reals(f, x))
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_scalars(f, x)
        type(tpf_frame), intent(inout), target :: f
        real(c_double), intent(in), optional :: x(:)
        type(tpf_scalar) :: s
        type(tpf_list) :: list
        integer(c_int64_t), allocatable :: words(:)
        integer :: i
        if (.not. present(x)) then
            call tpf_put_none(f)
            return
        end if
        allocate (words(3 * size(x)))
        do i = 1, size(x)
            s = tpf_boxed(x(i))
            words(3 * i - 2:3 * i) = [s%kind, s%word(1), s%word(2)]
        end do
        list = tpf_keep(f, words)
        list%n = size(x, kind=c_int64_t)
        call tpf_put_list(f, tpf_k_scalars, list)
    end subroutine
    subroutine tpf_put_text(f, x)
        type(tpf_frame), intent(inout), target :: f
        character(len=*), intent(in), optional :: x
        if (present(x)) then
            call tpf_put(f, tpf_k_string, transfer(tpf_text_of(f, x), 0_c_int64_t), 0_c_int64_t, 0_c_int64_t)
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_enum(f, kind, x) ! a dtype or a layout
        type(tpf_frame), intent(inout) :: f
        integer, intent(in) :: kind
        integer, intent(in), optional :: x
        if (present(x)) then
            call tpf_put(f, kind, transfer([int(x, c_int32_t), 0_c_int32_t], 0_c_int64_t), 0_c_int64_t, 0_c_int64_t)
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_device(f, x)
        type(tpf_frame), intent(inout) :: f
        character(len=*), intent(in), optional :: x
        type(tpf_device) :: device
        if (present(x)) then
            device = tpf_device_of(x)
            call tpf_put(f, tpf_k_device, transfer([device%kind, device%index, 0_c_int16_t, 0_c_int16_t], 0_c_int64_t), &
                         0_c_int64_t, 0_c_int64_t)
        else
            call tpf_put_none(f)
        end if
    end subroutine
    subroutine tpf_put_generator(f, x)
        type(tpf_frame), intent(inout) :: f
        type(tp_generator), intent(in), optional :: x
        if (present(x)) then
            call tpf_put(f, tpf_k_generator, transfer(x%handle, 0_c_int64_t), 0_c_int64_t, 0_c_int64_t)
        else
            call tpf_put_none(f)
        end if
    end subroutine

    ! ---- the call ----
    function tpf_run(f, name, results) result(ok)
        type(tpf_frame), intent(in) :: f
        character(len=*), intent(in) :: name ! ends with c_null_char
        type(tpf_value), intent(inout) :: results(:)
        logical :: ok
        integer :: i
        do i = 1, size(results)
            results(i)%kind = 0
            results(i)%word = 0
        end do
        call tpf_need_scope()
        ok = tpf_c_call_values(name, int(f%n, c_int64_t), f%v, size(results, kind=c_int64_t), results)
    end function
    function tpf_one(f, name) result(at) ! the one tensor that an operator gives
        type(tpf_frame), intent(in) :: f
        character(len=*), intent(in) :: name
        type(c_ptr) :: at
        type(tpf_value) :: results(1)
        at = c_null_ptr
        if (.not. tpf_run(f, name, results)) return
        if (results(1)%kind == tpf_k_tensor) at = transfer(results(1)%word(1), c_null_ptr)
    end function
    subroutine tpf_change(f, name) ! an in-place form: what it gives back is its first argument
        type(tpf_frame), intent(in) :: f
        character(len=*), intent(in) :: name
        type(tpf_value) :: results(1)
        logical :: ok
        ok = tpf_run(f, name, results)
    end subroutine
    subroutine tpf_into(out, f, name) ! an out form
        type(tp_tensor), intent(in) :: out
        type(tpf_frame), intent(in) :: f
        character(len=*), intent(in) :: name
        type(tpf_operator_head), pointer :: op
        procedure(tpf_invoke_out), pointer :: invoke
        logical(c_bool) :: ok
        if (.not. tp_ok()) return
        call c_f_pointer(tpf_c_find_operator(name), op)
        call c_f_procpointer(op%invoke_out, invoke)
        ok = invoke(out%handle, f%v)
    end subroutine
    subroutine tpf_set(t, value) ! one of several results
        type(tp_tensor), intent(inout), optional :: t
        type(tpf_value), intent(in) :: value
        type(tp_tensor) :: found
        if (.not. present(t)) return
        if (value%kind == tpf_k_tensor) found%handle = transfer(value%word(1), c_null_ptr)
        t = found
    end subroutine
    subroutine tpf_set_list(list, value)
        type(tp_tensor), allocatable, intent(inout) :: list(:)
        type(tpf_value), intent(in) :: value
        type(c_ptr), pointer :: handles(:)
        integer :: i, n
        n = 0
        if (value%kind == tpf_k_tensors) n = int(value%word(2))
        if (allocated(list)) deallocate (list)
        allocate (list(n))
        if (n == 0) return
        call c_f_pointer(transfer(value%word(1), c_null_ptr), handles, [n])
        do i = 1, n
            list(i) = tpf_borrowed(handles(i))
        end do
    end subroutine
    function tpf_number(value) result(x)
        type(tpf_value), intent(in) :: value
        real(c_double) :: x
        type(tpf_value) :: v
        v = value
        x = 0
        if (v%word(1) == 3 .or. v%word(1) == 4) then
            x = transfer(v%word(2), x)
        else
            x = real(v%word(2), c_double)
        end if
    end function

    ! ---- tensors over arrays ----
    ! dims and steps are the array's own, the first dimension first; steps in elements.
    function tpf_over(at, dtype, dims, steps) result(t)
        type(c_ptr), intent(in) :: at
        integer, intent(in) :: dtype
        integer(c_int64_t), intent(in) :: dims(:), steps(:)
        type(c_ptr) :: t
        type(tpf_frame), target :: f
        type(tpf_list) :: shape
        integer :: n
        n = size(dims)
        t = c_null_ptr
        shape = tpf_keep(f, dims(n:1:-1))
        call tpf_need_scope()
        if (any(dims == 0)) then
            t = tpf_c_new(shape, int(dtype, c_int))
        else if (any(steps < 0)) then
            call tpf_fail(tpf_err_value, "tp_over: argument 'x': a section that runs backwards cannot be seen without a copy")
        else
            t = tpf_c_over_data(at, int(dtype, c_int), shape, tpf_keep(f, steps(n:1:-1)), c_null_funptr, c_null_ptr)
        end if
    end function
    ! What tp_pointer and tp_copy_to look at: does the tensor have this dtype and, reversed, these dimensions?
    function tpf_fits(name, t, dtype, rank) result(ok)
        character(len=*), intent(in) :: name
        type(tp_tensor), intent(in) :: t
        integer, intent(in) :: dtype, rank
        logical :: ok
        character(len=120) :: text
        ok = .false.
        if (.not. t%defined()) then
            if (tp_ok()) call tpf_fail(tpf_err_value, name // ": argument 't' is not defined")
        else if (t%dtype() /= dtype .or. t%ndim() /= rank) then
            write (text, "(3a, i0, 3a, i0)") ": argument 't': expected a tensor of ", tpf_text_at(tpf_c_dtype_name(dtype)), &
                " with dimensions ", rank, ", got one of ", tpf_text_at(tpf_c_dtype_name(t%dtype())), " with ", t%ndim()
            call tpf_fail(tpf_err_type, name // trim(text))
        else
            ok = .true.
        end if
    end function
    function tpf_reversed(t) result(dims) ! the dimensions as Fortran orders them
        type(tp_tensor), intent(in) :: t
        integer, allocatable :: dims(:)
        integer :: i, n
        n = max(0, t%ndim())
        allocate (dims(n))
        do i = 1, n
            dims(i) = int(tpf_c_size(t%handle, int(n - i, c_int64_t)))
        end do
    end function
    function tpf_same(dims, shape) result(ok)
        integer, intent(in) :: dims(:), shape(:)
        logical :: ok
        ok = all(dims == shape)
        if (.not. ok) call tpf_fail(tpf_err_value, "tp_copy_to: argument 'x': its shape is not that of 't' in reverse")
    end function
    function tpf_is_dense(t) result(ok) ! the elements lie one after the other, in memory that the program can read
        type(tp_tensor), intent(in) :: t
        logical :: ok
        ok = tpf_c_is_contiguous(t%handle)
        if (.not. ok) call tpf_fail(tpf_err_value, "tp_pointer: argument 't' is not contiguous: view tp_contiguous(t)")
    end function
    function tpf_distance(first, second, bytes) result(step) ! between two elements, in elements
        type(c_ptr), intent(in) :: first, second
        integer, intent(in) :: bytes
        integer(c_int64_t) :: step
        step = (transfer(second, 0_c_int64_t) - transfer(first, 0_c_int64_t)) / bytes
    end function
    function tpf_copy(t) result(at)
        type(tp_tensor), intent(in) :: t
        type(c_ptr) :: at
        type(tpf_frame), target :: f
        call tpf_put_handle(f, t%handle)
        at = tpf_one(f, "clone" // c_null_char)
    end function
end module taper_base
