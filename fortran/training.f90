! Taper for Fortran: what a training needs besides networks: schedules, data, checkpoints, gradients within bounds, mixed precision, and
! many processes.
module taper_training
    use taper_base
    use taper_objects
    implicit none
    public

    integer, parameter :: tp_reduce_sum = 0, tp_reduce_avg = 1, tp_reduce_product = 2, tp_reduce_min = 3, tp_reduce_max = 4

    type, bind(c) :: tpf_autocast_mode
        integer(c_int64_t) :: device, dtype
        logical(c_bool) :: enabled, cache
    end type

    type :: tp_schedule
        type(tpf_ref) :: ref
    contains
        procedure, private :: assign => tpf_assign_schedule
        generic :: assignment(=) => assign
        procedure :: handle => tpf_handle_schedule   ! C's pointer, for calls of the C API
        procedure :: defined => tpf_defined_schedule
        procedure :: release => tpf_release_schedule ! the variable lets go of it
        final :: tpf_final_schedule
        procedure :: step => tpf_schedule_step
        procedure :: report => tpf_schedule_report     ! ReduceLROnPlateau: the epoch's figure
        procedure :: last_lr => tpf_schedule_last_lr
    end type

    type :: tp_dataset
        type(tpf_ref) :: ref
    contains
        procedure, private :: assign => tpf_assign_dataset
        generic :: assignment(=) => assign
        procedure :: handle => tpf_handle_dataset   ! C's pointer, for calls of the C API
        procedure :: defined => tpf_defined_dataset
        procedure :: release => tpf_release_dataset ! the variable lets go of it
        final :: tpf_final_dataset
        procedure :: count => tpf_dataset_count
    end type

    type :: tp_loader
        type(tpf_ref) :: ref
    contains
        procedure, private :: assign => tpf_assign_loader
        generic :: assignment(=) => assign
        procedure :: handle => tpf_handle_loader   ! C's pointer, for calls of the C API
        procedure :: defined => tpf_defined_loader
        procedure :: release => tpf_release_loader ! the variable lets go of it
        final :: tpf_final_loader
        procedure :: next => tpf_loader_next           ! false at the end of an epoch; the next call begins another
        procedure :: field => tpf_loader_field         ! of the batch, counted from 0
        procedure :: batches => tpf_loader_batches     ! in an epoch
    end type

    type :: tp_ddp
        type(tpf_ref) :: ref
    contains
        procedure, private :: assign => tpf_assign_ddp
        generic :: assignment(=) => assign
        procedure :: handle => tpf_handle_ddp   ! C's pointer, for calls of the C API
        procedure :: defined => tpf_defined_ddp
        procedure :: release => tpf_release_ddp ! the variable lets go of it
        final :: tpf_final_ddp
        procedure :: finish => tpf_ddp_finish          ! waits: gradients are averages over all ranks now
        procedure :: pause => tpf_ddp_pause            ! while on, gradients add up here and nothing is sent
        procedure :: broadcast_buffers => tpf_ddp_buffers
    end type

    type :: tp_autocast ! call cast%begin(tp_bfloat16); products run in that dtype until cast%end(), or the variable's end
        type(tpf_autocast_mode), private :: before
        logical, private :: is_open = .false.
    contains
        procedure :: begin => tpf_begin_autocast
        procedure :: end => tpf_end_autocast
        final :: tpf_final_autocast
    end type

    ! Losses of half precision are scaled, and steps with infinite gradients left out. The program's to free: call scaler%free()
    type :: tp_scaler
        type(c_ptr), private :: made = c_null_ptr
    contains
        procedure :: handle => tpf_handle_scaler
        procedure :: scale => tpf_scaler_scale         ! the loss times the scale
        procedure :: unscale => tpf_scaler_unscale     ! before gradients are clipped
        procedure :: step => tpf_scaler_step           ! the optimiser's, unless a gradient is infinite or NaN
        procedure :: update => tpf_scaler_update       ! once after all optimisers' steps
        procedure :: get_scale => tpf_scaler_get_scale
        procedure :: free => tpf_free_scaler
    end type

    ! A TorchScript program, as PyTorch's torch.jit.save wrote it. The program's to free: call script%free()
    type :: tp_script
        type(c_ptr), private :: made = c_null_ptr
    contains
        procedure :: handle => tpf_handle_script
        procedure, private :: forward_one => tpf_script_forward_one, forward_list => tpf_script_forward_list
        generic :: forward => forward_one, forward_list
        procedure :: train => tpf_script_train         ! .false.: evaluation
        procedure :: save => tpf_script_save
        procedure :: free => tpf_free_script
    end type

    interface tp_clip_grad_norm ! scales gradients so that their joint norm is at most max_norm; gives the norm that they had
        module procedure tpf_clip_norm_tensors, tpf_clip_norm_module
    end interface
    interface tp_clip_grad_value
        module procedure tpf_clip_value_tensors, tpf_clip_value_module
    end interface

    type, bind(c) :: tpf_schedule_options
        integer(c_int64_t) :: bytes
        real(c_double) :: last_epoch, step_size, gamma, factor, total_iters, start_factor, end_factor, power, t_max, eta_min, t_0, &
            t_mult, base_lr, max_lr, step_size_up, step_size_down, cycle_momentum, base_momentum, max_momentum, total_steps, &
            pct_start, div_factor, final_div_factor, three_phase, patience, threshold, cooldown, min_lr, eps
        type(c_ptr) :: mode, anneal_strategy, threshold_mode
        type(tpf_list) :: milestones
        type(c_funptr) :: lr_lambda
        type(c_ptr) :: context
        real(c_double) :: swa_lr, anneal_epochs
    end type
    type, bind(c) :: tpf_loader_options
        integer(c_int64_t) :: bytes, batch
        logical(c_bool) :: shuffle, drop_last
        integer(c_int) :: threads
        integer(c_int64_t) :: ahead
        type(c_ptr) :: generator
    end type
    type, bind(c) :: tpf_training
        integer(c_int64_t) :: bytes
        type(c_ptr) :: model = c_null_ptr, optimiser = c_null_ptr, schedule = c_null_ptr, scaler = c_null_ptr
        type(c_ptr) :: loader = c_null_ptr, generator = c_null_ptr, schedules = c_null_ptr
        integer(c_int64_t) :: nschedules = 0, epoch = 0, step = 0
    end type
    type, bind(c) :: tpf_scaler_options
        integer(c_int64_t) :: bytes
        real(c_double) :: init_scale, growth_factor, backoff_factor
        integer(c_int64_t) :: growth_interval
        logical(c_bool) :: enabled
    end type
    type, bind(c) :: tpf_dist_init_options
        integer(c_int64_t) :: bytes
        type(c_ptr) :: backend
        logical(c_bool) :: placed
        integer(c_int) :: rank, world_size
        type(c_ptr) :: store
        real(c_double) :: timeout, stall
    end type
    type, bind(c) :: tpf_ddp_options
        integer(c_int64_t) :: bytes
        type(c_ptr) :: group
        integer(c_int64_t) :: bucket_bytes
        logical(c_bool) :: find_unused
    end type

    interface
        ! files
        ! scalers and scripts
        ! many processes
        subroutine tp_dist_end() bind(c, name="tp_dist_end")
        end subroutine
        !from_c tp_schedule_new tp_schedule_step tp_schedule_report tp_schedule_last_lr tp_dataset_of_tensors tp_dataset_mnist
        !from_c tp_dataset_of_file tp_dataset_subset tp_dataset_normalised tp_dataset_count tp_loader_new_with tp_loader_next
        !from_c tp_loader_field tp_loader_batches tp_generator_new tp_generator_free tp_clip_grad_norm tp_clip_grad_value
        !from_c tp_autocast_enter tp_autocast_leave tp_training_save tp_training_load tp_scaler_new_with tp_scaler_free
        !from_c tp_scaler_scale tp_scaler_unscale tp_scaler_step tp_scaler_update tp_scaler_get_scale tp_script_load
        !from_c tp_ivalue_release tp_script_forward tp_script_train tp_script_save tp_dist_init_with tp_group_rank
        !from_c tp_group_size tp_dist_all_reduce tp_dist_reduce tp_dist_broadcast tp_dist_all_gather_into tp_dist_barrier
        !from_c tp_dist_send tp_dist_recv tp_dist_wait tp_ddp_new_with tp_ddp_finish tp_ddp_pause tp_ddp_broadcast_buffers
    end interface

contains

    impure elemental subroutine tpf_assign_schedule(to, from)
        class(tp_schedule), intent(inout) :: to
        type(tp_schedule), intent(in) :: from
        call tpf_share(to%ref, from%ref)
    end subroutine
    impure elemental subroutine tpf_release_schedule(object)
        class(tp_schedule), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    impure elemental subroutine tpf_final_schedule(object)
        type(tp_schedule), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    function tpf_handle_schedule(object) result(handle)
        class(tp_schedule), intent(in) :: object
        type(c_ptr) :: handle
        handle = tpf_pointer(object%ref)
    end function
    function tpf_defined_schedule(object) result(yes)
        class(tp_schedule), intent(in) :: object
        logical :: yes
        yes = c_associated(tpf_pointer(object%ref))
    end function
    impure elemental subroutine tpf_assign_dataset(to, from)
        class(tp_dataset), intent(inout) :: to
        type(tp_dataset), intent(in) :: from
        call tpf_share(to%ref, from%ref)
    end subroutine
    impure elemental subroutine tpf_release_dataset(object)
        class(tp_dataset), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    impure elemental subroutine tpf_final_dataset(object)
        type(tp_dataset), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    function tpf_handle_dataset(object) result(handle)
        class(tp_dataset), intent(in) :: object
        type(c_ptr) :: handle
        handle = tpf_pointer(object%ref)
    end function
    function tpf_defined_dataset(object) result(yes)
        class(tp_dataset), intent(in) :: object
        logical :: yes
        yes = c_associated(tpf_pointer(object%ref))
    end function
    impure elemental subroutine tpf_assign_loader(to, from)
        class(tp_loader), intent(inout) :: to
        type(tp_loader), intent(in) :: from
        call tpf_share(to%ref, from%ref)
    end subroutine
    impure elemental subroutine tpf_release_loader(object)
        class(tp_loader), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    impure elemental subroutine tpf_final_loader(object)
        type(tp_loader), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    function tpf_handle_loader(object) result(handle)
        class(tp_loader), intent(in) :: object
        type(c_ptr) :: handle
        handle = tpf_pointer(object%ref)
    end function
    function tpf_defined_loader(object) result(yes)
        class(tp_loader), intent(in) :: object
        logical :: yes
        yes = c_associated(tpf_pointer(object%ref))
    end function
    impure elemental subroutine tpf_assign_ddp(to, from)
        class(tp_ddp), intent(inout) :: to
        type(tp_ddp), intent(in) :: from
        call tpf_share(to%ref, from%ref)
    end subroutine
    impure elemental subroutine tpf_release_ddp(object)
        class(tp_ddp), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    impure elemental subroutine tpf_final_ddp(object)
        type(tp_ddp), intent(inout) :: object
        call tpf_let_go(object%ref)
    end subroutine
    function tpf_handle_ddp(object) result(handle)
        class(tp_ddp), intent(in) :: object
        type(c_ptr) :: handle
        handle = tpf_pointer(object%ref)
    end function
    function tpf_defined_ddp(object) result(yes)
        class(tp_ddp), intent(in) :: object
        logical :: yes
        yes = c_associated(tpf_pointer(object%ref))
    end function

    ! ---- schedules: PyTorch's names, arguments and defaults; numbers may be of any kind ----
    function tp_schedule_new(kind, optimiser, last_epoch, step_size, gamma, factor, total_iters, start_factor, end_factor, power, &
            t_max, eta_min, t_0, t_mult, base_lr, max_lr, step_size_up, step_size_down, cycle_momentum, base_momentum, &
            max_momentum, total_steps, pct_start, div_factor, final_div_factor, three_phase, patience, threshold, cooldown, &
            min_lr, eps, mode, anneal_strategy, threshold_mode, milestones, swa_lr, anneal_epochs, lr_lambda, context) result(s)
        character(len=*), intent(in) :: kind ! "StepLR"
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in), optional :: last_epoch, step_size, gamma, factor, total_iters, start_factor, end_factor, power, &
            t_max, eta_min, t_0, t_mult, base_lr, max_lr, step_size_up, step_size_down, base_momentum, max_momentum, total_steps, &
            pct_start, div_factor, final_div_factor, patience, threshold, cooldown, min_lr, eps, swa_lr, anneal_epochs
        type(c_funptr), intent(in), optional :: lr_lambda ! of C: callbacks.f90 has Fortran's
        type(c_ptr), intent(in), optional :: context
        logical, intent(in), optional :: cycle_momentum, three_phase
        character(len=*), intent(in), optional :: mode, anneal_strategy, threshold_mode
        integer, intent(in), optional :: milestones(:)
        type(tp_schedule) :: s
        type(tpf_schedule_options) :: o
        type(tpf_frame), target :: f
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%last_epoch = tpf_real(last_epoch, tpf_no_float)
        o%step_size = tpf_real(step_size, tpf_no_float)
        o%gamma = tpf_real(gamma, tpf_no_float)
        o%factor = tpf_real(factor, tpf_no_float)
        o%total_iters = tpf_real(total_iters, tpf_no_float)
        o%start_factor = tpf_real(start_factor, tpf_no_float)
        o%end_factor = tpf_real(end_factor, tpf_no_float)
        o%power = tpf_real(power, tpf_no_float)
        o%t_max = tpf_real(t_max, tpf_no_float)
        o%eta_min = tpf_real(eta_min, tpf_no_float)
        o%t_0 = tpf_real(t_0, tpf_no_float)
        o%t_mult = tpf_real(t_mult, tpf_no_float)
        o%base_lr = tpf_real(base_lr, tpf_no_float)
        o%max_lr = tpf_real(max_lr, tpf_no_float)
        o%step_size_up = tpf_real(step_size_up, tpf_no_float)
        o%step_size_down = tpf_real(step_size_down, tpf_no_float)
        o%cycle_momentum = tpf_yes(cycle_momentum)
        o%base_momentum = tpf_real(base_momentum, tpf_no_float)
        o%max_momentum = tpf_real(max_momentum, tpf_no_float)
        o%total_steps = tpf_real(total_steps, tpf_no_float)
        o%pct_start = tpf_real(pct_start, tpf_no_float)
        o%div_factor = tpf_real(div_factor, tpf_no_float)
        o%final_div_factor = tpf_real(final_div_factor, tpf_no_float)
        o%three_phase = tpf_yes(three_phase)
        o%patience = tpf_real(patience, tpf_no_float)
        o%threshold = tpf_real(threshold, tpf_no_float)
        o%cooldown = tpf_real(cooldown, tpf_no_float)
        o%min_lr = tpf_real(min_lr, tpf_no_float)
        o%eps = tpf_real(eps, tpf_no_float)
        o%mode = tpf_text_of(f, mode)
        o%anneal_strategy = tpf_text_of(f, anneal_strategy)
        o%threshold_mode = tpf_text_of(f, threshold_mode)
        o%milestones = tpf_integers(f, milestones)
        o%lr_lambda = c_null_funptr
        if (present(lr_lambda)) o%lr_lambda = lr_lambda
        o%context = c_null_ptr
        if (present(context)) o%context = context
        o%swa_lr = tpf_real(swa_lr, tpf_no_float)
        o%anneal_epochs = tpf_real(anneal_epochs, tpf_no_float)
        call tpf_made(s%ref, tpf_is_schedule, tpf_c_schedule_new(kind // c_null_char, optimiser%handle(), o), optimiser%ref)
    end function
    function tpf_yes(value) result(x)
        logical, intent(in), optional :: value
        real(c_double) :: x
        x = tpf_no_float
        if (present(value)) x = merge(1._c_double, 0._c_double, value)
    end function
    function tp_step_lr(optimiser, step_size, gamma) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: step_size
        class(*), intent(in), optional :: gamma
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("StepLR", optimiser, step_size=step_size, gamma=gamma))
    end function
    function tp_multi_step_lr(optimiser, milestones, gamma) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        integer, intent(in) :: milestones(:)
        class(*), intent(in), optional :: gamma
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("MultiStepLR", optimiser, milestones=milestones, gamma=gamma))
    end function
    function tp_constant_lr(optimiser, factor, total_iters) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in), optional :: factor, total_iters
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("ConstantLR", optimiser, factor=factor, total_iters=total_iters))
    end function
    function tp_linear_lr(optimiser, start_factor, end_factor, total_iters) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in), optional :: start_factor, end_factor, total_iters
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("LinearLR", optimiser, start_factor=start_factor, end_factor=end_factor, &
                                           total_iters=total_iters))
    end function
    function tp_exponential_lr(optimiser, gamma) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: gamma
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("ExponentialLR", optimiser, gamma=gamma))
    end function
    function tp_polynomial_lr(optimiser, total_iters, power) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in), optional :: total_iters, power
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("PolynomialLR", optimiser, total_iters=total_iters, power=power))
    end function
    function tp_cosine_annealing_lr(optimiser, t_max, eta_min) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: t_max
        class(*), intent(in), optional :: eta_min
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("CosineAnnealingLR", optimiser, t_max=t_max, eta_min=eta_min))
    end function
    function tp_cosine_annealing_warm_restarts(optimiser, t_0, t_mult, eta_min) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: t_0
        class(*), intent(in), optional :: t_mult, eta_min
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("CosineAnnealingWarmRestarts", optimiser, t_0=t_0, t_mult=t_mult, eta_min=eta_min))
    end function
    function tp_cyclic_lr(optimiser, base_lr, max_lr, step_size_up, step_size_down, mode, gamma, cycle_momentum) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: base_lr, max_lr
        class(*), intent(in), optional :: step_size_up, step_size_down, gamma
        character(len=*), intent(in), optional :: mode
        logical, intent(in), optional :: cycle_momentum
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("CyclicLR", optimiser, base_lr=base_lr, max_lr=max_lr, step_size_up=step_size_up, &
                                           step_size_down=step_size_down, mode=mode, gamma=gamma, cycle_momentum=cycle_momentum))
    end function
    function tp_one_cycle_lr(optimiser, max_lr, total_steps, pct_start, anneal_strategy, cycle_momentum, div_factor, &
            final_div_factor, three_phase) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: max_lr, total_steps
        class(*), intent(in), optional :: pct_start, div_factor, final_div_factor
        character(len=*), intent(in), optional :: anneal_strategy
        logical, intent(in), optional :: cycle_momentum, three_phase
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("OneCycleLR", optimiser, max_lr=max_lr, total_steps=total_steps, pct_start=pct_start, &
                                           anneal_strategy=anneal_strategy, cycle_momentum=cycle_momentum, div_factor=div_factor, &
                                           final_div_factor=final_div_factor, three_phase=three_phase))
    end function
    function tp_reduce_lr_on_plateau(optimiser, mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in), optional :: factor, patience, threshold, cooldown, min_lr, eps
        character(len=*), intent(in), optional :: mode, threshold_mode
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("ReduceLROnPlateau", optimiser, mode=mode, factor=factor, patience=patience, &
                                           threshold=threshold, threshold_mode=threshold_mode, cooldown=cooldown, min_lr=min_lr, &
                                           eps=eps))
    end function
    function tp_swa_lr(optimiser, swa_lr, anneal_epochs, anneal_strategy) result(s)
        type(tp_optimiser), intent(in) :: optimiser
        class(*), intent(in) :: swa_lr
        class(*), intent(in), optional :: anneal_epochs
        character(len=*), intent(in), optional :: anneal_strategy
        type(tp_schedule) :: s
        s%ref = tpf_ref_of(tp_schedule_new("SWALR", optimiser, swa_lr=swa_lr, anneal_epochs=anneal_epochs, &
                                           anneal_strategy=anneal_strategy))
    end function
    function tpf_ref_of(s) result(ref)
        type(tp_schedule), intent(in) :: s
        type(tpf_ref) :: ref
        ref = s%ref
    end function
    subroutine tpf_schedule_step(s)
        class(tp_schedule), intent(in) :: s
        logical(c_bool) :: ok
        ok = tpf_c_schedule_step(s%handle())
    end subroutine
    subroutine tpf_schedule_report(s, figure)
        class(tp_schedule), intent(in) :: s
        class(*), intent(in) :: figure
        logical(c_bool) :: ok
        ok = tpf_c_schedule_report(s%handle(), tpf_real(figure, 0._c_double))
    end subroutine
    function tpf_schedule_last_lr(s, group) result(lr)
        class(tp_schedule), intent(in) :: s
        integer, intent(in), optional :: group
        real(c_double) :: lr
        lr = tpf_c_schedule_last_lr(s%handle(), int(tpf_enum(group), c_int64_t))
    end function

    ! ---- data ----
    function tp_dataset_of_tensors(tensors) result(d) ! item i: the i-th row of each
        type(tp_tensor), intent(in) :: tensors(:)
        type(tp_dataset) :: d
        type(tpf_frame), target :: f
        call tpf_made(d%ref, tpf_is_dataset, tpf_c_dataset_of_tensors(tpf_handles(f, tensors)))
    end function
    function tp_dataset_mnist(images, labels) result(d)
        character(len=*), intent(in) :: images, labels
        type(tp_dataset) :: d
        call tpf_made(d%ref, tpf_is_dataset, tpf_c_dataset_mnist(trim(images) // c_null_char, trim(labels) // c_null_char))
    end function
    function tp_dataset_of_file(path, names) result(d) ! named tensors of an .npz, .safetensors or .pt
        character(len=*), intent(in) :: path, names(:)
        type(tp_dataset) :: d
        type(tpf_frame), target :: f
        type(c_ptr), target :: texts(size(names))
        integer :: i
        do i = 1, size(names)
            texts(i) = tpf_text_of(f, trim(names(i)))
        end do
        call tpf_made(d%ref, tpf_is_dataset, tpf_c_dataset_of_file(trim(path) // c_null_char, size(names, kind=c_int64_t), &
                                                                   c_loc(texts)))
    end function
    function tp_dataset_subset(dataset, indices) result(d) ! counted from 0
        type(tp_dataset), intent(in) :: dataset
        integer, intent(in) :: indices(:)
        type(tp_dataset) :: d
        type(tpf_frame), target :: f
        call tpf_made(d%ref, tpf_is_dataset, tpf_c_dataset_subset(dataset%handle(), tpf_integers(f, indices)))
    end function
    function tp_dataset_normalised(dataset, field, divisor, mean, std) result(d) ! (x / divisor - mean) / std as float32
        type(tp_dataset), intent(in) :: dataset
        integer, intent(in) :: field
        class(*), intent(in) :: divisor
        real(c_double), intent(in), optional :: mean(:), std(:)
        type(tp_dataset) :: d
        type(tpf_frame), target :: f
        call tpf_made(d%ref, tpf_is_dataset, tpf_c_dataset_normalised(dataset%handle(), int(field, c_int64_t), &
                                                                      tpf_real(divisor, 1._c_double), tpf_reals(f, mean), &
                                                                      tpf_reals(f, std)))
    end function
    function tpf_dataset_count(d) result(n)
        class(tp_dataset), intent(in) :: d
        integer(c_int64_t) :: n
        n = tpf_c_dataset_count(d%handle())
    end function
    function tp_loader_new(dataset, batch, shuffle, drop_last, threads, ahead, generator) result(l)
        type(tp_dataset), intent(in) :: dataset
        integer, intent(in), optional :: batch, threads, ahead
        logical, intent(in), optional :: shuffle, drop_last
        type(tp_generator), intent(in), optional :: generator
        type(tp_loader) :: l
        type(tpf_loader_options) :: o
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%batch = tpf_enum(batch)
        o%shuffle = tpf_truth(shuffle, .false.)
        o%drop_last = tpf_truth(drop_last, .false.)
        o%threads = int(tpf_enum(threads), c_int)
        o%ahead = tpf_enum(ahead)
        o%generator = c_null_ptr
        if (present(generator)) o%generator = generator%handle
        call tpf_made(l%ref, tpf_is_loader, tpf_c_loader_new_with(dataset%handle(), o), dataset%ref)
    end function
    function tpf_loader_next(l) result(ok)
        class(tp_loader), intent(in) :: l
        logical :: ok
        ok = tpf_c_loader_next(l%handle())
    end function
    function tpf_loader_field(l, field) result(t)
        class(tp_loader), intent(in) :: l
        integer, intent(in) :: field
        type(tp_tensor) :: t
        t%handle = tpf_c_loader_field(l%handle(), int(field, c_int64_t))
    end function
    function tpf_loader_batches(l) result(n)
        class(tp_loader), intent(in) :: l
        integer :: n
        n = int(tpf_c_loader_batches(l%handle()))
    end function
    function tp_generator_new(seed) result(g) ! the program's to free
        class(*), intent(in) :: seed
        type(tp_generator) :: g
        g%handle = tpf_c_generator_new(tpf_whole(seed, 0_c_int64_t))
    end function
    subroutine tp_generator_free(g)
        type(tp_generator), intent(inout) :: g
        call tpf_c_generator_free(g%handle)
        g%handle = c_null_ptr
    end subroutine

    ! ---- gradients within bounds ----
    function tpf_clip_norm_tensors(params, max_norm) result(norm)
        type(tp_tensor), intent(in) :: params(:)
        class(*), intent(in) :: max_norm
        real(c_double) :: norm
        type(tpf_frame), target :: f
        type(tpf_list) :: list
        list = tpf_handles(f, params)
        norm = tpf_c_clip_grad_norm(list%n, list%v, tpf_real(max_norm, 0._c_double))
    end function
    function tpf_clip_norm_module(net, max_norm) result(norm)
        type(tp_module), intent(in) :: net
        class(*), intent(in) :: max_norm
        real(c_double) :: norm
        type(tpf_state) :: named
        norm = -1
        named = tpf_c_module_parameters(net%handle())
        if (named%n < 0) return
        norm = tpf_c_clip_grad_norm(named%n, named%tensors, tpf_real(max_norm, 0._c_double))
        call tpf_c_state_free(named)
    end function
    subroutine tpf_clip_value_tensors(params, clip_value)
        type(tp_tensor), intent(in) :: params(:)
        class(*), intent(in) :: clip_value
        type(tpf_frame), target :: f
        type(tpf_list) :: list
        logical(c_bool) :: ok
        list = tpf_handles(f, params)
        ok = tpf_c_clip_grad_value(list%n, list%v, tpf_real(clip_value, 0._c_double))
    end subroutine
    subroutine tpf_clip_value_module(net, clip_value)
        type(tp_module), intent(in) :: net
        class(*), intent(in) :: clip_value
        type(tpf_state) :: named
        logical(c_bool) :: ok
        named = tpf_c_module_parameters(net%handle())
        if (named%n < 0) return
        ok = tpf_c_clip_grad_value(named%n, named%tensors, tpf_real(clip_value, 0._c_double))
        call tpf_c_state_free(named)
    end subroutine

    ! ---- mixed precision ----
    subroutine tpf_begin_autocast(mode, dtype, device)
        class(tp_autocast), intent(inout) :: mode
        integer, intent(in) :: dtype
        character(len=*), intent(in), optional :: device ! "cuda"; the CPU where none is named
        type(tpf_device) :: place
        if (mode%is_open) return
        place = tpf_device_of("cpu")
        if (present(device)) place = tpf_device_of(device)
        mode%before = tpf_c_autocast_enter(int(place%kind, c_int), int(dtype, c_int), .true._c_bool)
        mode%is_open = .true.
    end subroutine
    subroutine tpf_end_autocast(mode)
        class(tp_autocast), intent(inout) :: mode
        if (mode%is_open) call tpf_c_autocast_leave(mode%before)
        mode%is_open = .false.
    end subroutine
    subroutine tpf_final_autocast(mode)
        type(tp_autocast), intent(inout) :: mode
        call mode%end()
    end subroutine

    ! ---- files ----
    subroutine tp_save(path, names, tensors) ! .safetensors, .npz, or PyTorch's format
        character(len=*), intent(in) :: path, names(:)
        type(tp_tensor), intent(in) :: tensors(:)
        type(c_ptr) :: texts(size(names)), handles(size(names))
        target :: texts, handles
        type(tpf_frame), target :: f
        logical(c_bool) :: ok
        call tpf_pointers(f, names, tensors, texts, handles)
        if (tp_ok()) ok = tpf_c_save(trim(path) // c_null_char, size(names, kind=c_int64_t), c_loc(texts), c_loc(handles))
    end subroutine
    subroutine tp_load(path, names, tensors) ! into tensors of the shapes that were saved
        character(len=*), intent(in) :: path, names(:)
        type(tp_tensor), intent(in) :: tensors(:)
        type(c_ptr) :: texts(size(names)), handles(size(names))
        target :: texts, handles
        type(tpf_frame), target :: f
        logical(c_bool) :: ok
        call tpf_pointers(f, names, tensors, texts, handles)
        if (tp_ok()) ok = tpf_c_load(trim(path) // c_null_char, size(names, kind=c_int64_t), c_loc(texts), c_loc(handles))
    end subroutine
    subroutine tpf_pointers(f, names, tensors, texts, handles)
        type(tpf_frame), intent(inout), target :: f
        character(len=*), intent(in) :: names(:)
        type(tp_tensor), intent(in) :: tensors(:)
        type(c_ptr), intent(out) :: texts(:), handles(:)
        type(tpf_list) :: list
        integer(c_int64_t), allocatable :: words(:)
        integer :: i, room
        texts = c_null_ptr
        handles = c_null_ptr
        if (size(names) /= size(tensors)) then
            call tpf_fail(tpf_err_value, "as many names as tensors are expected")
            return
        end if
        room = len(names) / 8 + 1 ! words of a name
        allocate (words(room * size(names)))
        do i = 1, size(names)
            words((i - 1) * room + 1:i * room) = tpf_padded(names(i), room)
            handles(i) = tensors(i)%handle
        end do
        list = tpf_keep(f, words)
        do i = 1, size(names)
            texts(i) = c_loc(f%slots(f%used)%words((i - 1) * room + 1))
        end do
    end subroutine
    function tpf_padded(text, room) result(words)
        character(len=*), intent(in) :: text
        integer, intent(in) :: room
        integer(c_int64_t) :: words(room), short(len_trim(text) / 8 + 1)
        short = tpf_packed(trim(text))
        words = 0
        words(:size(short)) = short
    end function

    ! ---- a training's checkpoint: one file with all that is given, and the default generator's place ----
    ! The file is that of the C function of the same name: PyTorch's programs read it, too.
    subroutine tp_training_save(path, net, optimiser, schedule, loader, epoch, step, scaler, generator)
        character(len=*), intent(in) :: path
        type(tp_module), intent(in) :: net
        type(tp_optimiser), intent(in), optional :: optimiser
        type(tp_schedule), intent(in), optional :: schedule
        type(tp_loader), intent(in), optional :: loader
        integer, intent(in), optional :: epoch, step
        type(tp_scaler), intent(in), optional :: scaler
        type(tp_generator), intent(in), optional :: generator ! besides the default one, which is always saved
        type(tpf_training) :: all
        logical(c_bool) :: ok
        all = tpf_training_of(net, optimiser, schedule, loader, scaler, generator)
        if (present(epoch)) all%epoch = epoch
        if (present(step)) all%step = step
        if (tp_ok()) ok = tpf_c_training_save(trim(path) // c_null_char, all)
    end subroutine
    subroutine tp_training_load(path, net, optimiser, schedule, loader, epoch, step, scaler, generator)
        character(len=*), intent(in) :: path
        type(tp_module), intent(in) :: net
        type(tp_optimiser), intent(in), optional :: optimiser
        type(tp_schedule), intent(in), optional :: schedule
        type(tp_loader), intent(in), optional :: loader
        integer, intent(out), optional :: epoch, step
        type(tp_scaler), intent(in), optional :: scaler
        type(tp_generator), intent(in), optional :: generator
        type(tpf_training) :: all
        logical(c_bool) :: ok
        all = tpf_training_of(net, optimiser, schedule, loader, scaler, generator)
        if (tp_ok()) ok = tpf_c_training_load(trim(path) // c_null_char, all)
        if (present(epoch)) epoch = int(all%epoch)
        if (present(step)) step = int(all%step)
    end subroutine
    function tpf_training_of(net, optimiser, schedule, loader, scaler, generator) result(all)
        type(tp_module), intent(in) :: net
        type(tp_optimiser), intent(in), optional :: optimiser
        type(tp_schedule), intent(in), optional :: schedule
        type(tp_loader), intent(in), optional :: loader
        type(tp_scaler), intent(in), optional :: scaler
        type(tp_generator), intent(in), optional :: generator
        type(tpf_training) :: all
        all%bytes = int(storage_size(all) / 8, c_int64_t)
        all%model = net%handle()
        if (present(optimiser)) all%optimiser = optimiser%handle()
        if (present(schedule)) all%schedule = schedule%handle()
        if (present(loader)) all%loader = loader%handle()
        if (present(scaler)) all%scaler = scaler%handle()
        if (present(generator)) all%generator = generator%handle
    end function

    ! ---- scalers of losses ----
    function tp_scaler_new(init_scale, growth_factor, backoff_factor, growth_interval, enabled) result(s)
        class(*), intent(in), optional :: init_scale, growth_factor, backoff_factor
        integer, intent(in), optional :: growth_interval
        logical, intent(in), optional :: enabled
        type(tp_scaler) :: s
        type(tpf_scaler_options) :: o
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%init_scale = tpf_real(init_scale, 65536._c_double)
        o%growth_factor = tpf_real(growth_factor, 2._c_double)
        o%backoff_factor = tpf_real(backoff_factor, 0.5_c_double)
        o%growth_interval = 2000
        if (present(growth_interval)) o%growth_interval = growth_interval
        o%enabled = .true.
        if (present(enabled)) o%enabled = enabled
        s%made = tpf_c_scaler_new_with(o)
    end function
    function tpf_handle_scaler(s) result(handle)
        class(tp_scaler), intent(in) :: s
        type(c_ptr) :: handle
        handle = s%made
    end function
    function tpf_scaler_scale(s, loss) result(t)
        class(tp_scaler), intent(in) :: s
        type(tp_tensor), intent(in) :: loss
        type(tp_tensor) :: t
        t%handle = tpf_c_scaler_scale(s%made, loss%handle)
    end function
    subroutine tpf_scaler_unscale(s, optimiser)
        class(tp_scaler), intent(in) :: s
        type(tp_optimiser), intent(in) :: optimiser
        logical(c_bool) :: ok
        ok = tpf_c_scaler_unscale(s%made, optimiser%handle())
    end subroutine
    subroutine tpf_scaler_step(s, optimiser)
        class(tp_scaler), intent(in) :: s
        type(tp_optimiser), intent(in) :: optimiser
        logical(c_bool) :: ok
        ok = tpf_c_scaler_step(s%made, optimiser%handle())
    end subroutine
    subroutine tpf_scaler_update(s)
        class(tp_scaler), intent(in) :: s
        logical(c_bool) :: ok
        ok = tpf_c_scaler_update(s%made)
    end subroutine
    function tpf_scaler_get_scale(s) result(scale)
        class(tp_scaler), intent(in) :: s
        real(c_double) :: scale
        scale = tpf_c_scaler_get_scale(s%made)
    end function
    subroutine tpf_free_scaler(s)
        class(tp_scaler), intent(inout) :: s
        call tpf_c_scaler_free(s%made)
        s%made = c_null_ptr
    end subroutine

    ! ---- TorchScript programs ----
    function tp_script_load(path) result(s)
        character(len=*), intent(in) :: path
        type(tp_script) :: s
        s%made = tpf_c_script_load(trim(path) // c_null_char)
    end function
    function tpf_handle_script(s) result(handle)
        class(tp_script), intent(in) :: s
        type(c_ptr) :: handle
        handle = s%made
    end function
    function tpf_script_forward_one(s, input) result(t)
        class(tp_script), intent(in) :: s
        type(tp_tensor), intent(in) :: input
        type(tp_tensor) :: t
        type(tpf_frame), target :: f
        t%handle = tpf_c_script_forward(s%made, tpf_handles(f, [input]))
    end function
    function tpf_script_forward_list(s, inputs) result(t)
        class(tp_script), intent(in) :: s
        type(tp_tensor), intent(in) :: inputs(:)
        type(tp_tensor) :: t
        type(tpf_frame), target :: f
        t%handle = tpf_c_script_forward(s%made, tpf_handles(f, inputs))
    end function
    subroutine tpf_script_train(s, on)
        class(tp_script), intent(in) :: s
        logical, intent(in), optional :: on
        logical(c_bool) :: ok, value
        value = .true.
        if (present(on)) value = on
        ok = tpf_c_script_train(s%made, value)
    end subroutine
    subroutine tpf_script_save(s, path)
        class(tp_script), intent(in) :: s
        character(len=*), intent(in) :: path
        logical(c_bool) :: ok
        ok = tpf_c_script_save(s%made, trim(path) // c_null_char)
    end subroutine
    subroutine tpf_free_script(s)
        class(tp_script), intent(inout) :: s
        call tpf_c_ivalue_release(s%made)
        s%made = c_null_ptr
    end subroutine

    ! ---- many processes: rank, number and where to meet come from the launcher, mpirun's or another's ----
    subroutine tp_dist_init(backend, timeout)
        character(len=*), intent(in), optional :: backend ! "mpi", "gloo", "tcp", "nccl"; none: by what is there
        class(*), intent(in), optional :: timeout         ! seconds, of each collective
        type(tpf_dist_init_options) :: o
        type(tpf_frame), target :: f
        logical(c_bool) :: ok
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%backend = tpf_text_of(f, backend)
        o%placed = .false.
        o%rank = 0
        o%world_size = 0
        o%store = c_null_ptr
        o%timeout = tpf_real(timeout, 0._c_double)
        o%stall = 0
        ok = tpf_c_dist_init_with(o)
    end subroutine
    function tp_rank() result(rank)
        integer :: rank
        rank = int(tpf_c_group_rank(c_null_ptr))
    end function
    function tp_ranks() result(n)
        integer :: n
        n = int(tpf_c_group_size(c_null_ptr))
    end function
    subroutine tpf_finished(work)
        type(c_ptr), intent(in) :: work
        logical(c_bool) :: ok
        ok = tpf_c_dist_wait(work)
    end subroutine
    subroutine tp_dist_all_reduce(t, op) ! in place, over all ranks; a sum unless op says otherwise
        type(tp_tensor), intent(in) :: t
        integer, intent(in), optional :: op
        call tpf_finished(tpf_c_dist_all_reduce(c_null_ptr, t%handle, int(tpf_enum(op), c_int)))
    end subroutine
    subroutine tp_dist_reduce(t, root, op)
        type(tp_tensor), intent(in) :: t
        integer, intent(in) :: root
        integer, intent(in), optional :: op
        call tpf_finished(tpf_c_dist_reduce(c_null_ptr, t%handle, int(tpf_enum(op), c_int), int(root, c_int)))
    end subroutine
    subroutine tp_dist_broadcast(t, root)
        type(tp_tensor), intent(in) :: t
        integer, intent(in) :: root
        call tpf_finished(tpf_c_dist_broadcast(c_null_ptr, t%handle, int(root, c_int)))
    end subroutine
    subroutine tp_dist_all_gather_into(out, t) ! one rank's after the other's in out's memory
        type(tp_tensor), intent(in) :: out, t
        call tpf_finished(tpf_c_dist_all_gather_into(c_null_ptr, out%handle, t%handle))
    end subroutine
    subroutine tp_dist_barrier()
        call tpf_finished(tpf_c_dist_barrier(c_null_ptr))
    end subroutine
    subroutine tp_dist_send(t, to, tag)
        type(tp_tensor), intent(in) :: t
        integer, intent(in) :: to
        integer, intent(in), optional :: tag
        call tpf_finished(tpf_c_dist_send(c_null_ptr, t%handle, int(to, c_int), int(tpf_enum(tag), c_int64_t)))
    end subroutine
    subroutine tp_dist_recv(t, from, tag)
        type(tp_tensor), intent(in) :: t
        integer, intent(in) :: from
        integer, intent(in), optional :: tag
        call tpf_finished(tpf_c_dist_recv(c_null_ptr, t%handle, int(from, c_int), int(tpf_enum(tag), c_int64_t)))
    end subroutine
    function tp_ddp_new(net, bucket_bytes, find_unused) result(d) ! rank 0's parameters become everybody's
        type(tp_module), intent(in) :: net
        integer, intent(in), optional :: bucket_bytes
        logical, intent(in), optional :: find_unused
        type(tp_ddp) :: d
        type(tpf_ddp_options) :: o
        o%bytes = int(storage_size(o) / 8, c_int64_t)
        o%group = c_null_ptr
        o%bucket_bytes = tpf_enum(bucket_bytes)
        o%find_unused = tpf_truth(find_unused, .false.)
        call tpf_made(d%ref, tpf_is_ddp, tpf_c_ddp_new_with(net%handle(), o), net%ref)
    end function
    subroutine tpf_ddp_finish(d)
        class(tp_ddp), intent(in) :: d
        logical(c_bool) :: ok
        ok = tpf_c_ddp_finish(d%handle())
    end subroutine
    subroutine tpf_ddp_pause(d, on)
        class(tp_ddp), intent(in) :: d
        logical, intent(in) :: on
        call tpf_c_ddp_pause(d%handle(), logical(on, c_bool))
    end subroutine
    subroutine tpf_ddp_buffers(d)
        class(tp_ddp), intent(in) :: d
        logical(c_bool) :: ok
        ok = tpf_c_ddp_broadcast_buffers(d%handle())
    end subroutine
end module taper_training
