! Taper for Fortran: modules, optimisers, schedules, datasets and loaders as objects.
!
! An object is counted: variables that were assigned the same one share it, and it goes with the last of them. What a function has just
! made belongs to nobody until it is assigned, or given to another object (a layer to a network). So compilers that finalise function
! results and those that do not behave alike.
module taper_objects
    use taper_base
    implicit none
    public

    integer, parameter :: tpf_is_module = 1, tpf_is_optimiser = 2, tpf_is_schedule = 3, tpf_is_dataset = 4, tpf_is_loader = 5, &
        tpf_is_ddp = 6

    type :: tpf_cell
        type(c_ptr) :: handle = c_null_ptr
        integer :: kind = 0, count = 0
        type(tpf_cell), pointer :: needs => null() ! what must live as long: a schedule's optimiser
    end type

    type :: tpf_ref
        type(tpf_cell), pointer :: cell => null()
        type(c_ptr) :: lent = c_null_ptr ! without a cell: a module that another one holds
        logical :: owned = .false.
    end type

    type :: tp_module
        type(tpf_ref) :: ref
    contains
        procedure, private :: assign => tpf_assign_module
        generic :: assignment(=) => assign
        procedure :: handle => tpf_handle_module   ! C's pointer, for calls of the C API
        procedure :: defined => tpf_defined_module
        procedure :: release => tpf_release_module ! the variable lets go of it
        final :: tpf_final_module
        procedure :: forward => tpf_forward              ! of up to four tensors
        procedure :: parameters => tpf_parameters        ! call net%parameters(list)
        procedure :: state => tpf_state_of               ! call net%state(names, list): PyTorch's state_dict
        procedure :: save => tpf_save_module             ! .safetensors, .npz, or PyTorch's format
        procedure :: load => tpf_load_module
        procedure :: train => tpf_train
        procedure :: eval => tpf_eval
        procedure :: zero_grad => tpf_module_zero_grad
        procedure :: set_requires_grad => tpf_module_requires_grad
        procedure :: to => tpf_module_to                 ! another dtype, in place
        procedure :: reset => tpf_module_reset
        procedure :: tensor => tpf_module_tensor         ! a parameter or buffer by its path
        procedure :: child => tpf_module_child
        procedure :: clone => tpf_module_clone
        procedure :: add => tpf_module_add
        procedure :: add_parameter => tpf_module_add_parameter
        procedure :: add_buffer => tpf_module_add_buffer
        procedure :: text => tpf_module_text             ! what PyTorch prints
        procedure :: print => tpf_module_print
    end type

    type :: tp_optimiser
        type(tpf_ref) :: ref
    contains
        procedure, private :: assign => tpf_assign_optimiser
        generic :: assignment(=) => assign
        procedure :: handle => tpf_handle_optimiser   ! C's pointer, for calls of the C API
        procedure :: defined => tpf_defined_optimiser
        procedure :: release => tpf_release_optimiser ! the variable lets go of it
        final :: tpf_final_optimiser
        procedure :: step => tpf_step
        procedure :: zero_grad => tpf_optimiser_zero_grad
        procedure :: option => tpf_get_option            ! "lr", "momentum", "beta1"
        procedure :: set_option => tpf_set_option
        procedure :: add_group => tpf_add_group          ! its number, counted from 0
    end type

    abstract interface
        subroutine tp_forward_procedure(self, x, y)
            import
            type(tp_module), intent(in) :: self
            type(tp_tensor), intent(in) :: x
            type(tp_tensor), intent(inout) :: y
        end subroutine
    end interface
    type :: tpf_own_forward
        procedure(tp_forward_procedure), pointer, nopass :: call => null()
    end type

    type, bind(c) :: tpf_state ! C's tp_state
        type(c_ptr) :: names, tensors
        integer(c_int64_t) :: n
    end type

    ! ---- an optimiser's options: the list of values that C's optimisers take ----
    type, bind(c) :: tpf_optimiser_kind_head ! the beginning of tp_optimiser_kind
        type(c_ptr) :: name, doc, like
        integer(c_int64_t) :: noptions, nvalues
        type(c_ptr) :: options, group, defaults, values
        integer(c_int64_t) :: nstates
        type(c_ptr) :: states
    end type
    type :: tpf_options
        type(c_ptr) :: kind = c_null_ptr
        real(c_double), allocatable :: values(:)
        logical :: chosen = .false.
    end type

    interface
        !from_c tp_module_retain tp_module_release tp_nn_sequential_of tp_nn_transformer_encoder tp_nn_transformer_decoder
        !from_c tp_module_new tp_module_set_context tp_module_context tp_forward_one tp_forward_values tp_module_parameters
        !from_c tp_module_state tp_state_free tp_save tp_load tp_module_train tp_module_zero_grad tp_module_requires_grad
        !from_c tp_module_to tp_module_reset tp_module_tensor tp_module_child tp_module_clone tp_module_add
        !from_c tp_module_add_parameter tp_module_add_buffer tp_module_format tp_optimiser_kind_named tp_optimiser_new
        !from_c tp_optimiser_free tp_step tp_optimiser_zero_grad tp_optimiser_add_group tp_optimiser_option
        !from_c tp_optimiser_set_option tp_schedule_free tp_dataset_release tp_loader_free tp_ddp_free
    end interface

contains

    ! ---- references to objects ----
    subroutine tpf_made(ref, kind, handle, needs) ! what a C function has just made, or NULL
        type(tpf_ref), intent(inout) :: ref
        integer, intent(in) :: kind
        type(c_ptr), intent(in) :: handle
        type(tpf_ref), intent(in), optional :: needs
        ref%cell => null()
        ref%lent = c_null_ptr
        ref%owned = .false.
        if (.not. c_associated(handle)) return
        allocate (ref%cell)
        ref%cell%handle = handle
        ref%cell%kind = kind
        if (.not. present(needs)) return
        ref%cell%needs => needs%cell
        if (associated(needs%cell)) needs%cell%count = needs%cell%count + 1
    end subroutine
    recursive subroutine tpf_drop(cell) ! one holder fewer
        type(tpf_cell), pointer, intent(inout) :: cell
        type(tpf_cell), pointer :: needs
        if (.not. associated(cell)) return
        cell%count = cell%count - 1
        if (cell%count > 0) return
        select case (cell%kind)
        case (tpf_is_module)
            call tpf_c_module_release(cell%handle)
        case (tpf_is_optimiser)
            call tpf_c_optimiser_free(cell%handle)
        case (tpf_is_schedule)
            call tpf_c_schedule_free(cell%handle)
        case (tpf_is_dataset)
            call tpf_c_dataset_release(cell%handle)
        case (tpf_is_loader)
            call tpf_c_loader_free(cell%handle)
        case (tpf_is_ddp)
            call tpf_c_ddp_free(cell%handle)
        end select
        needs => cell%needs
        deallocate (cell)
        cell => null()
        call tpf_drop(needs)
    end subroutine
    subroutine tpf_share(to, from)
        type(tpf_ref), intent(inout) :: to
        type(tpf_ref), intent(in) :: from
        type(tpf_ref) :: fresh
        if (c_associated(from%lent)) then ! the variable gets a reference of its own
            call tpf_made(fresh, tpf_is_module, tpf_c_module_retain(from%lent))
        else
            fresh = from
        end if
        fresh%owned = associated(fresh%cell)
        if (fresh%owned) fresh%cell%count = fresh%cell%count + 1
        call tpf_let_go(to)
        to = fresh
    end subroutine
    subroutine tpf_let_go(ref)
        type(tpf_ref), intent(inout) :: ref
        if (ref%owned) call tpf_drop(ref%cell)
        ref%cell => null()
        ref%lent = c_null_ptr
        ref%owned = .false.
    end subroutine
    function tpf_pointer(ref) result(handle)
        type(tpf_ref), intent(in) :: ref
        type(c_ptr) :: handle
        handle = ref%lent
        if (associated(ref%cell)) handle = ref%cell%handle
    end function
    ! A module for C to take over: the reference itself, where nobody holds it.
    function tpf_given(m) result(handle)
        type(tp_module), intent(in) :: m
        type(c_ptr) :: handle
        type(tpf_cell), pointer :: cell
        handle = m%handle()
        cell => m%ref%cell
        if (.not. associated(cell)) then
            if (c_associated(handle)) handle = tpf_c_module_retain(handle)
        else if (cell%count > 0) then
            handle = tpf_c_module_retain(handle)
        else
            deallocate (cell)
        end if
    end function

    impure elemental subroutine tpf_assign_module(to, from)
        class(tp_module), intent(inout) :: to
        type(tp_module), intent(in) :: from
        call tpf_share(to%ref, from%ref)
    end subroutine
    impure elemental subroutine tpf_release_module(object)
        class(tp_module), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    impure elemental subroutine tpf_final_module(object)
        type(tp_module), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    function tpf_handle_module(object) result(handle)
        class(tp_module), intent(in) :: object
        type(c_ptr) :: handle
        handle = tpf_pointer(object%ref)
    end function
    function tpf_defined_module(object) result(yes)
        class(tp_module), intent(in) :: object
        logical :: yes
        yes = c_associated(tpf_pointer(object%ref))
    end function
    impure elemental subroutine tpf_assign_optimiser(to, from)
        class(tp_optimiser), intent(inout) :: to
        type(tp_optimiser), intent(in) :: from
        call tpf_share(to%ref, from%ref)
    end subroutine
    impure elemental subroutine tpf_release_optimiser(object)
        class(tp_optimiser), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    impure elemental subroutine tpf_final_optimiser(object)
        type(tp_optimiser), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    function tpf_handle_optimiser(object) result(handle)
        class(tp_optimiser), intent(in) :: object
        type(c_ptr) :: handle
        handle = tpf_pointer(object%ref)
    end function
    function tpf_defined_optimiser(object) result(yes)
        class(tp_optimiser), intent(in) :: object
        logical :: yes
        yes = c_associated(tpf_pointer(object%ref))
    end function

    ! ---- modules ----
    function tp_nn_sequential(modules) result(m)
        type(tp_module), intent(in) :: modules(:)
        type(tp_module) :: m
        type(c_ptr), target :: handles(size(modules))
        integer :: i
        do i = 1, size(modules)
            handles(i) = tpf_given(modules(i))
        end do
        call tpf_made(m%ref, tpf_is_module, tpf_c_nn_sequential_of(size(modules, kind=c_int64_t), c_loc(handles)))
    end function
    function tp_nn_transformer_encoder(layer, count, norm) result(m)
        type(tp_module), intent(in) :: layer
        class(*), intent(in) :: count
        type(tp_module), intent(in), optional :: norm
        type(tp_module) :: m
        type(c_ptr) :: last
        last = c_null_ptr
        if (present(norm)) last = tpf_given(norm)
        call tpf_made(m%ref, tpf_is_module, tpf_c_nn_transformer_encoder(tpf_given(layer), tpf_whole(count, 0_c_int64_t), last))
    end function
    function tp_nn_transformer_decoder(layer, count, norm) result(m)
        type(tp_module), intent(in) :: layer
        class(*), intent(in) :: count
        type(tp_module), intent(in), optional :: norm
        type(tp_module) :: m
        type(c_ptr) :: last
        last = c_null_ptr
        if (present(norm)) last = tpf_given(norm)
        call tpf_made(m%ref, tpf_is_module, tpf_c_nn_transformer_decoder(tpf_given(layer), tpf_whole(count, 0_c_int64_t), last))
    end function

    ! A module of one's own: forward(self, x, y) finds its layers and tensors by name, self%child("inner"), self%tensor("scale").
    function tp_module_new(name, forward) result(m)
        character(len=*), intent(in) :: name
        procedure(tp_forward_procedure) :: forward
        type(tp_module) :: m
        type(tpf_own_forward), pointer :: own
        type(c_ptr) :: handle
        handle = tpf_c_module_new(name // c_null_char, c_funloc(tpf_call_own))
        call tpf_made(m%ref, tpf_is_module, handle)
        if (.not. c_associated(handle)) return
        allocate (own)
        own%call => forward
        call tpf_c_module_set_context(handle, c_loc(own), c_funloc(tpf_free_own))
    end function
    function tpf_call_own(self, x) bind(c) result(y)
        type(c_ptr), value :: self, x
        type(c_ptr) :: y
        type(tpf_own_forward), pointer :: own
        type(tp_module) :: m
        type(tp_tensor) :: input, output
        call c_f_pointer(tpf_c_module_context(self), own)
        m%ref%lent = self
        input = tpf_borrowed(x)
        call own%call(m, input, output)
        y = c_null_ptr
        if (.not. output%defined()) return
        call output%hand_over()
        y = output%handle
    end function
    subroutine tpf_free_own(context) bind(c)
        type(c_ptr), value :: context
        type(tpf_own_forward), pointer :: own
        call c_f_pointer(context, own)
        deallocate (own)
    end subroutine
    function tpf_forward(m, x, x2, x3, x4) result(y)
        class(tp_module), intent(in) :: m
        type(tp_tensor), intent(in) :: x
        type(tp_tensor), intent(in), optional :: x2, x3, x4
        type(tp_tensor) :: y
        type(tpf_frame), target :: f
        call tpf_put_inputs(f, x, x2, x3, x4)
        call tpf_need_scope()
        y%handle = tpf_c_forward_one(m%handle(), int(f%n, c_int64_t), f%v)
    end function
    function tp_forward(m, x, x2, x3, x4) result(y)
        type(tp_module), intent(in) :: m
        type(tp_tensor), intent(in) :: x
        type(tp_tensor), intent(in), optional :: x2, x3, x4
        type(tp_tensor) :: y
        type(tpf_frame), target :: f
        call tpf_put_inputs(f, x, x2, x3, x4)
        call tpf_need_scope()
        y%handle = tpf_c_forward_one(m%handle(), int(f%n, c_int64_t), f%v)
    end function
    ! For layers that give several tensors, as LSTM does: as many results as are present.
    subroutine tp_forward_many(m, inputs, y, y2, y3)
        type(tp_module), intent(in) :: m
        type(tp_tensor), intent(in) :: inputs(:)
        type(tp_tensor), intent(inout) :: y
        type(tp_tensor), intent(inout), optional :: y2, y3
        type(tpf_frame), target :: f
        type(tpf_value) :: results(3)
        integer :: i, n
        n = 1 + merge(1, 0, present(y2)) + merge(1, 0, present(y3))
        do i = 1, size(inputs)
            call tpf_put_handle(f, inputs(i)%handle)
            if (.not. inputs(i)%defined()) f%v(i)%kind = 0
        end do
        results%kind = 0
        call tpf_need_scope()
        if (.not. tpf_c_forward_values(m%handle(), int(f%n, c_int64_t), f%v, int(n, c_int64_t), results)) results%kind = 0
        call tpf_set(y, results(1))
        call tpf_set(y2, results(2))
        call tpf_set(y3, results(3))
    end subroutine
    subroutine tpf_put_inputs(f, x, x2, x3, x4)
        type(tpf_frame), intent(inout) :: f
        type(tp_tensor), intent(in) :: x
        type(tp_tensor), intent(in), optional :: x2, x3, x4
        call tpf_put_tensor(f, x)
        if (present(x2)) call tpf_put_tensor(f, x2)
        if (present(x3)) call tpf_put_tensor(f, x3)
        if (present(x4)) call tpf_put_tensor(f, x4)
    end subroutine

    subroutine tpf_take(named, list, names) ! and frees C's arrays
        type(tpf_state), intent(in) :: named
        type(tp_tensor), allocatable, intent(inout) :: list(:)
        character(len=:), allocatable, intent(inout), optional :: names(:)
        type(c_ptr), pointer :: tensors(:), texts(:)
        integer :: i, n, longest
        n = int(max(0_c_int64_t, named%n))
        if (allocated(list)) deallocate (list)
        allocate (list(n))
        longest = 0
        if (n > 0) then
            call c_f_pointer(named%tensors, tensors, [n])
            call c_f_pointer(named%names, texts, [n])
            do i = 1, n
                list(i) = tpf_borrowed(tensors(i))
                longest = max(longest, int(tpf_c_strlen(texts(i))))
            end do
        end if
        if (present(names)) then
            if (allocated(names)) deallocate (names)
            allocate (character(len=longest) :: names(n))
            do i = 1, n
                names(i) = tpf_text_at(texts(i))
            end do
        end if
        if (named%n >= 0) call tpf_c_state_free(named)
    end subroutine
    subroutine tpf_parameters(m, list)
        class(tp_module), intent(in) :: m
        type(tp_tensor), allocatable, intent(inout) :: list(:)
        call tpf_take(tpf_c_module_parameters(m%handle()), list)
    end subroutine
    subroutine tpf_state_of(m, names, list)
        class(tp_module), intent(in) :: m
        character(len=:), allocatable, intent(inout) :: names(:)
        type(tp_tensor), allocatable, intent(inout) :: list(:)
        call tpf_take(tpf_c_module_state(m%handle()), list, names)
    end subroutine
    subroutine tpf_save_module(m, path)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: path
        type(tpf_state) :: named
        logical(c_bool) :: ok
        named = tpf_c_module_state(m%handle())
        if (named%n < 0) return
        ok = tpf_c_save(trim(path) // c_null_char, named%n, named%names, named%tensors)
        call tpf_c_state_free(named)
    end subroutine
    subroutine tpf_load_module(m, path)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: path
        type(tpf_state) :: named
        logical(c_bool) :: ok
        named = tpf_c_module_state(m%handle())
        if (named%n < 0) return
        ok = tpf_c_load(trim(path) // c_null_char, named%n, named%names, named%tensors)
        call tpf_c_state_free(named)
    end subroutine
    subroutine tpf_train(m, on)
        class(tp_module), intent(in) :: m
        logical, intent(in), optional :: on
        call tpf_c_module_train(m%handle(), tpf_truth(on, .true.))
    end subroutine
    subroutine tpf_eval(m)
        class(tp_module), intent(in) :: m
        call tpf_c_module_train(m%handle(), .false._c_bool)
    end subroutine
    subroutine tpf_module_zero_grad(m)
        class(tp_module), intent(in) :: m
        logical(c_bool) :: ok
        ok = tpf_c_module_zero_grad(m%handle())
    end subroutine
    subroutine tpf_module_requires_grad(m, on)
        class(tp_module), intent(in) :: m
        logical, intent(in), optional :: on
        logical(c_bool) :: ok
        ok = tpf_c_module_requires_grad(m%handle(), tpf_truth(on, .true.))
    end subroutine
    subroutine tpf_module_to(m, dtype)
        class(tp_module), intent(in) :: m
        integer, intent(in) :: dtype
        logical(c_bool) :: ok
        ok = tpf_c_module_to(m%handle(), int(dtype, c_int))
    end subroutine
    subroutine tpf_module_reset(m)
        class(tp_module), intent(in) :: m
        logical(c_bool) :: ok
        ok = tpf_c_module_reset(m%handle())
    end subroutine
    function tpf_module_tensor(m, path) result(t)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: path
        type(tp_tensor) :: t
        t%handle = tpf_c_module_tensor(m%handle(), trim(path) // c_null_char)
    end function
    function tpf_module_child(m, path) result(child)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: path
        type(tp_module) :: child
        child%ref%lent = tpf_c_module_child(m%handle(), trim(path) // c_null_char)
    end function
    function tpf_module_clone(m) result(copy)
        class(tp_module), intent(in) :: m
        type(tp_module) :: copy
        call tpf_made(copy%ref, tpf_is_module, tpf_c_module_clone(m%handle()))
    end function
    subroutine tpf_module_add(m, name, child)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: name
        type(tp_module), intent(in) :: child
        logical(c_bool) :: ok
        ok = tpf_c_module_add(m%handle(), trim(name) // c_null_char, tpf_given(child))
    end subroutine
    subroutine tpf_module_add_parameter(m, name, t)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: name
        type(tp_tensor), intent(in) :: t
        logical(c_bool) :: ok
        ok = tpf_c_module_add_parameter(m%handle(), trim(name) // c_null_char, t%handle)
    end subroutine
    subroutine tpf_module_add_buffer(m, name, t, persistent)
        class(tp_module), intent(in) :: m
        character(len=*), intent(in) :: name
        type(tp_tensor), intent(in) :: t
        logical, intent(in), optional :: persistent
        logical(c_bool) :: ok
        ok = tpf_c_module_add_buffer(m%handle(), trim(name) // c_null_char, t%handle, tpf_truth(persistent, .true.))
    end subroutine
    function tpf_module_text(m) result(text)
        class(tp_module), intent(in) :: m
        character(len=:), allocatable :: text
        character(kind=c_char), allocatable :: bytes(:)
        integer(c_int64_t) :: i, n
        allocate (bytes(1))
        text = ""
        n = tpf_c_module_format(m%handle(), bytes, 0_c_size_t)
        if (n <= 0) return
        deallocate (bytes)
        allocate (bytes(n + 1))
        n = tpf_c_module_format(m%handle(), bytes, int(n + 1, c_size_t))
        text = repeat(" ", int(n))
        do i = 1, n
            text(i:i) = bytes(i)
        end do
    end function
    subroutine tpf_module_print(m)
        class(tp_module), intent(in) :: m
        write (*, "(a)") m%text()
    end subroutine

    ! ---- optimisers ----
    subroutine tpf_options_begin(o, name)
        type(tpf_options), intent(inout) :: o
        character(len=*), intent(in) :: name
        type(tpf_optimiser_kind_head), pointer :: kind
        real(c_double), pointer :: defaults(:)
        o%kind = tpf_c_optimiser_kind_named(name // c_null_char)
        call c_f_pointer(o%kind, kind)
        call c_f_pointer(kind%defaults, defaults, [kind%nvalues])
        allocate (o%values(kind%nvalues))
        o%values = defaults
    end subroutine
    subroutine tpf_option(o, at, value)
        type(tpf_options), intent(inout) :: o
        integer, intent(in) :: at
        class(*), intent(in), optional :: value
        type(tpf_scalar) :: s
        if (.not. present(value)) return
        s = tpf_boxed(value)
        if (s%kind == 1) then
            o%values(at) = real(s%word(1), c_double)
        else
            o%values(at) = tpf_real(value, 0._c_double)
        end if
    end subroutine
    subroutine tpf_option_list(o, at, count, name, value)
        type(tpf_options), intent(inout) :: o
        integer, intent(in) :: at, count
        character(len=*), intent(in) :: name
        real(c_double), intent(in), optional :: value(:)
        if (.not. present(value)) return
        if (size(value) == count) then
            o%values(at:at + count - 1) = value
        else
            call tpf_fail(tpf_err_value, "argument '" // name // "' has another number of values than its default")
        end if
    end subroutine
    subroutine tpf_option_choice(o, at, text, number, value, last)
        type(tpf_options), intent(inout) :: o
        integer, intent(in) :: at, number
        character(len=*), intent(in) :: text
        character(len=*), intent(in), optional :: value
        logical, intent(in) :: last
        if (.not. present(value)) return
        if (value == text) then
            o%values(at) = number
            o%chosen = .true.
        end if
        if (last .and. .not. o%chosen) call tpf_fail(tpf_err_value, "no option is called '" // value // "'")
        if (last) o%chosen = .false.
    end subroutine
    subroutine tpf_options_end(o, r, tensors, net)
        type(tpf_options), intent(in) :: o
        type(tp_optimiser), intent(inout) :: r
        type(tp_tensor), intent(in), optional :: tensors(:)
        type(tp_module), intent(in), optional :: net
        type(tpf_frame), target :: f
        type(tpf_state) :: named
        if (.not. tp_ok()) return
        if (present(net)) then
            named = tpf_c_module_parameters(net%handle())
            if (named%n < 0) return
            call tpf_made(r%ref, tpf_is_optimiser, tpf_c_optimiser_new(o%kind, tpf_list(named%tensors, named%n), o%values))
            call tpf_c_state_free(named)
        else
            call tpf_made(r%ref, tpf_is_optimiser, tpf_c_optimiser_new(o%kind, tpf_handles(f, tensors), o%values))
        end if
    end subroutine
    subroutine tpf_step(o)
        class(tp_optimiser), intent(in) :: o
        logical(c_bool) :: ok
        ok = tpf_c_step(o%handle())
    end subroutine
    subroutine tpf_optimiser_zero_grad(o)
        class(tp_optimiser), intent(in) :: o
        logical(c_bool) :: ok
        ok = tpf_c_optimiser_zero_grad(o%handle())
    end subroutine
    function tpf_get_option(o, name, group) result(x)
        class(tp_optimiser), intent(in) :: o
        character(len=*), intent(in) :: name
        integer, intent(in), optional :: group
        real(c_double) :: x
        integer(c_int64_t) :: at
        at = 0
        if (present(group)) at = group
        x = tpf_c_optimiser_option(o%handle(), at, trim(name) // c_null_char)
    end function
    subroutine tpf_set_option(o, name, value, group) ! of all groups, unless one is named
        class(tp_optimiser), intent(in) :: o
        character(len=*), intent(in) :: name
        class(*), intent(in) :: value
        integer, intent(in), optional :: group
        integer(c_int64_t) :: at
        logical(c_bool) :: ok
        at = -1
        if (present(group)) at = group
        ok = tpf_c_optimiser_set_option(o%handle(), at, trim(name) // c_null_char, tpf_real(value, 0._c_double))
    end subroutine
    function tpf_add_group(o, params) result(n)
        class(tp_optimiser), intent(in) :: o
        type(tp_tensor), intent(in) :: params(:)
        integer :: n
        type(tpf_frame), target :: f
        n = int(tpf_c_optimiser_add_group(o%handle(), tpf_handles(f, params)))
    end function

    function tpf_enum(value) result(x) ! a dtype or a layout; 0 is C's "not given"
        integer, intent(in), optional :: value
        integer :: x
        x = 0
        if (present(value)) x = value
    end function
end module taper_objects
