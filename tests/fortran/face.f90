! The Fortran module: what each part promises, and that nothing is left behind. Prints what fails; no output but the last line is well.
module faces
    use taper
    implicit none
    integer :: failures = 0
    type, bind(c) :: memory_stats
        integer(c_int64_t) :: size, allocated, peak, reserved, allocations
    end type
    interface
        function memory_query(stats) bind(c, name="tp_memory_query") result(ok)
            import
            type(memory_stats), intent(inout) :: stats
            logical(c_bool) :: ok
        end function
    end interface
    type(tp_tensor), save :: w            ! for callbacks
    type(tp_optimiser), save :: lbfgs

contains
    subroutine expect(condition, what)
        logical, intent(in) :: condition
        character(len=*), intent(in) :: what
        if (.not. tp_ok()) print "(a, a, a)", what, ": ", tp_error()
        if (condition .and. tp_ok()) return
        print "(a, a)", "FAILED: ", what
        failures = failures + 1
        call tp_error_clear()
    end subroutine
    subroutine refused(part, what) ! an error stands, and its text has this part
        character(len=*), intent(in) :: part, what
        if (index(tp_error(), part) == 0) then
            print "(4a)", "FAILED: ", what, ": got the error: ", tp_error()
            failures = failures + 1
        end if
        call tp_error_clear()
    end subroutine
    function bytes() result(n)
        integer(c_int64_t) :: n
        type(memory_stats) :: stats
        logical(c_bool) :: ok
        stats%size = storage_size(stats) / 8
        ok = memory_query(stats)
        n = stats%allocated
    end function
    function number(t) result(x)
        type(tp_tensor), intent(in) :: t
        real(c_double) :: x
        x = t%item()
    end function

    subroutine operators()
        type(tp_tensor) :: x, y, z, values, indices
        type(tp_tensor), allocatable :: parts(:)
        real(c_double) :: a(3, 2)
        type(tp_scope) :: scope
        call scope%open()
        a = reshape([1d0, 2d0, 3d0, 4d0, 5d0, 6d0], [3, 2])
        x = tp_from(a)
        call expect(all(x%shape() == [2, 3]) .and. x%dtype() == tp_float64, "an array's dimensions in reverse")
        y = 2 * x + x * 3.0 - x / 2d0 - (-x)
        call expect(number(tp_sum(y)) == 21d0 * 5.5d0, "+ - * / with numbers of every kind")
        z = x**2
        call expect(number(tp_select(tp_select(z, 0, 1), 0, 2)) == 36, "**")
        call expect(number(tp_sum(x > 3)) == 3 .and. number(tp_sum((x >= 2) .and. (x /= 4.0))) == 4, "comparisons")
        call expect(number(tp_sum(.not. (x == 1_c_int64_t))) == 5, ".not. and ==")
        z = matmul(x, tp_t(x))
        call expect(all(z%shape() == [2, 2]) .and. number(tp_sum(z)) == 14 + 2 * 32 + 77, "matmul")
        call expect(abs(number(tp_sum(exp(log(x)) + sqrt(x * x) + tanh(0 * x))) - 42) < 1d-12, "intrinsic names")
        z = x * (0d0, 1d0)
        call expect(z%dtype() == tp_complex128, "complex numbers")
        call tp_max_dim(x, 1, values, indices, keepdim=.true.)
        call expect(all(values%shape() == [2, 1]) .and. number(tp_sum(indices)) == 4, "several results")
        call tp_max_dim(x, 0, indices=indices)
        call expect(number(tp_sum(indices)) == 3, "one of several results")
        call tp_split(x, 2, parts, dim=1)
        call expect(size(parts) == 2 .and. all(parts(2)%shape() == [2, 1]), "a list of results")
        z = tp_cat([x, y, x], dim=0)
        call expect(all(z%shape() == [6, 3]), "a list of arguments")
        call tp_add_(z, 1)
        call tp_mul_out(z, z, 2)
        call expect(number(tp_sum(z)) == 2 * (42 + 115.5d0 + 18), "in place and out forms")
        call expect(tp_equal(x, tp_clone(x)) .and. .not. tp_equal(x, y), "operators that answer")
        z = tp_zeros([3, 4], dtype=tp_int64, device="cpu")
        call expect(z%numel() == 12 .and. z%dtype() == tp_int64 .and. z%size(-1) == 4, "dtype and device by name")
        z = tp_einsum("ij,kj->ik", [x, x])
        call expect(number(tp_sum(z)) == 14 + 64 + 77, "texts")
        call expect(index(x%text(), "tensor([[1., 2., 3.],") == 1, "what PyTorch prints")
    end subroutine

    subroutine refusals()
        type(tp_tensor) :: x, y, nothing
        real(c_float), pointer :: p(:)
        type(tp_module) :: net
        type(tp_scope) :: scope
        call scope%open()
        x = tp_ones([2, 3])
        y = matmul(x, x) + 1
        if (y%defined()) failures = failures + 1
        call refused("mat1 and mat2 shapes cannot be multiplied", "a chain of calls after an error")
        if (number(x) > 0) failures = failures + 1
        call refused("a Tensor with 6 elements cannot be converted to Scalar", "an item of six elements")
        y = tp_softmax(x, 7)
        call refused("Dimension out of range", "a dimension out of range")
        y = tp_softmax(x, "one")
        call refused("expected a tensor or a number", "a text for a number")
        y = nothing + x
        call refused("", "a tensor that was never made")
        y = tp_zeros([2], device="abacus")
        call refused("no device is called 'abacus'", "a device that is none")
        call tp_pointer(x, p)
        call refused("tp_pointer: argument 't': expected", "a pointer of another rank")
        net = tp_nn_conv2d(3, 4, [3], groups=2)
        call refused("groups", "a layer's wrong option")
        net = tp_nn_linear(2, 2)
        call expect(net%defined(), "a layer after an error")
        y = net%tensor("weights")
        call refused("weights", "a parameter's name misspelt")
    end subroutine

    subroutine arrays()
        real(c_float), target :: a(4, 6)
        integer(c_int64_t), target :: labels(3)
        real(c_float), pointer :: p(:, :)
        real(c_float) :: b(2, 3)
        type(tp_tensor) :: x, y
        type(tp_scope) :: scope
        integer :: i, j
        call scope%open()
        a = reshape([(real(i), i=1, 24)], [4, 6])
        x = tp_over(a)
        a(2, 1) = 100
        call expect(number(tp_select(tp_select(x, 0, 0), 0, 1)) == 100, "a tensor sees what the array gets")
        call tp_mul_(x, 2)
        call expect(a(2, 1) == 200 .and. a(4, 6) == 48, "and the array what the tensor gets")
        y = tp_over(a(1:4:2, 2:6:2)) ! a section with steps, no copy
        call tp_zero_(y)
        do j = 1, 6
            do i = 1, 4
                call expect((a(i, j) == 0) .eqv. (mod(i, 2) == 1 .and. mod(j, 2) == 0), "a section without a copy")
            end do
        end do
        call tp_pointer(x, p)
        call expect(all(shape(p) == [4, 6]) .and. associated(p), "a pointer to a tensor's elements")
        p = 7
        call expect(all(a == 7), "written through")
        call tp_copy_to(tp_ones([3, 2]), b)
        call expect(all(b == 1), "copied out")
        labels = [4_c_int64_t, 5_c_int64_t, 6_c_int64_t]
        y = tp_over(labels)
        call expect(y%dtype() == tp_int64 .and. number(tp_sum(y)) == 15, "integers")
        y = tp_over(a(:, 1:0))
        call expect(y%numel() == 0, "an array without elements")
    end subroutine

    subroutine gradients()
        type(tp_tensor) :: x, y, grad
        type(tp_tensor), allocatable :: grads(:)
        type(tp_no_grad) :: off
        type(tp_scope) :: scope
        call scope%open()
        x = tp_full([3], 2d0, dtype=tp_float64)
        call x%set_requires_grad()
        y = tp_sum(x**3)
        call y%backward()
        grad = x%grad()
        call expect(number(tp_sum(grad)) == 36, "a gradient")
        y = tp_sum(x**3)
        call tp_gradients([y], [x], grads, create_graph=.true.)
        y = tp_sum(grads(1))
        call tp_gradients([y], [x], grads)
        call expect(number(tp_sum(grads(1))) == 36, "a gradient of a gradient")
        call off%begin()
        y = x * 2
        call off%end()
        call expect(.not. y%requires_grad(), "no tape")
        y = x * 2
        call expect(y%requires_grad(), "and a tape again")
    end subroutine

    subroutine double_it(self, x, y)
        type(tp_module), intent(in) :: self
        type(tp_tensor), intent(in) :: x
        type(tp_tensor), intent(inout) :: y
        type(tp_module) :: inner
        inner = self%child("inner")
        y = tp_forward(self%child("inner"), x) + inner%forward(x)
    end subroutine

    subroutine modules()
        type(tp_module) :: net, own, copy, linear
        type(tp_tensor) :: x, y, h, c
        type(tp_tensor), allocatable :: list(:)
        character(len=:), allocatable :: names(:)
        type(tp_scope) :: scope
        call scope%open()
        call tp_manual_seed(0)
        net = tp_nn_sequential([tp_nn_conv2d(1, 8, [3], padding=[1], bias=.false.), tp_nn_batch_norm2d(8, eps=1d-3), &
                                tp_nn_relu(), tp_nn_max_pool2d([2]), tp_nn_flatten(), tp_nn_dropout(0.25), tp_nn_linear(128, 10)])
        call expect(net%text() == "Sequential(" // new_line("a") // &
            "  (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)" // new_line("a") // &
            "  (1): BatchNorm2d(8, eps=0.001, momentum=0.1, affine=True, bias=True, track_running_stats=True)" // new_line("a") // &
            "  (2): ReLU()" // new_line("a") // &
            "  (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)" // new_line("a") // &
            "  (4): Flatten(start_dim=1, end_dim=-1)" // new_line("a") // &
            "  (5): Dropout(p=0.25, inplace=False)" // new_line("a") // &
            "  (6): Linear(in_features=128, out_features=10, bias=True)" // new_line("a") // ")", "layers with options")
        call net%parameters(list)
        call expect(size(list) == 5, "parameters")
        call net%state(names, list)
        call expect(size(list) == 8 .and. names(1) == "0.weight" .and. names(6) == "1.num_batches_tracked", "state")
        y = net%forward(tp_randn([2, 1, 8, 8]))
        call expect(all(y%shape() == [2, 10]), "forward")
        copy = net%clone()
        call net%save("net.safetensors")
        call net%reset()
        call expect(.not. tp_equal(net%tensor("6.weight"), copy%tensor("6.weight")), "reset")
        call net%load("net.safetensors")
        call expect(tp_equal(net%tensor("6.weight"), copy%tensor("6.weight")), "save and load")
        own = tp_module_new("Doubled", double_it)
        linear = tp_nn_linear(3, 3)
        call own%add("inner", linear)
        x = tp_ones([2, 3])
        call expect(tp_equal(own%forward(x), linear%forward(x) * 2), "a module of one's own")
        own = tp_nn_lstm(3, 5, num_layers=2, batch_first=.true.)
        call tp_forward_many(own, [tp_ones([4, 6, 3])], y, h, c)
        call expect(all(y%shape() == [4, 6, 5]) .and. all(c%shape() == [2, 4, 5]), "a layer with several results")
        net = tp_nn_transformer_encoder(tp_nn_transformer_encoder_layer(8, 2, dropout=0, batch_first=.true.), 2)
        y = net%forward(tp_randn([2, 3, 8]))
        call expect(all(y%shape() == [2, 3, 8]), "a module given to another")
    end subroutine

    subroutine scripts()
        type(tp_script) :: net, again
        type(tp_tensor) :: y
        character(len=1024) :: folder
        call get_environment_variable("TAPER_SOURCE_DIR", folder)
        net = tp_script_load(trim(folder) // "/tests/scripts/perceptron.pt")
        call net%train(.false.)
        y = net%forward(tp_ones([5, 4]))
        call expect(tp_ok() .and. all(y%shape() == [5, 3]), "a TorchScript program")
        call net%save("again.pt")
        again = tp_script_load("again.pt")
        call expect(tp_equal(y, again%forward([tp_ones([5, 4])])), "a TorchScript program that was saved")
        call net%free()
        call again%free()
    end subroutine

    subroutine training()
        type(tp_tensor) :: x, y, loss, again, drawn
        type(tp_dataset) :: data
        type(tp_loader) :: loader
        type(tp_module) :: net
        type(tp_optimiser) :: adam
        type(tp_schedule) :: schedule
        type(tp_scope) :: scope
        type(tp_scaler) :: scaler
        type(tp_generator) :: generator
        real(c_double) :: losses(6), norm
        integer :: epoch, start, k, step
        call tp_manual_seed(5)
        x = tp_randn([20, 3])
        y = tp_sum(x, dim=[1], keepdim=.true.)
        data = tp_dataset_of_tensors([x, y])
        call expect(data%count() == 20, "a dataset of tensors")
        do start = 0, 3, 3 ! the second time from the checkpoint
            call tp_manual_seed(5)
            loader = tp_loader_new(data, batch=8, shuffle=.true.)
            net = tp_nn_linear(3, 1)
            adam = tp_adam(net, lr=0.1, betas=[0.8d0, 0.99d0], amsgrad=.true.)
            schedule = tp_step_lr(adam, step_size=2, gamma=0.5d0)
            scaler = tp_scaler_new(init_scale=merge(64, 16, start > 0), growth_interval=1000)
            generator = tp_generator_new(merge(3, 4, start > 0))
            epoch = 0
            step = 0
            if (start > 0) call tp_training_load("last.pt", net, adam, schedule, loader, epoch, step, scaler, generator)
            call expect(epoch == start .and. step == 3 * start, "the epoch and step of the checkpoint")
            call expect(scaler%get_scale() == 16, "the scaler of the checkpoint")
            again = tp_rand([4], generator=generator)
            call expect(tp_ok(), "a generator")
            if (start > 0) call expect(tp_equal(again, drawn), "the generator of the checkpoint")
            drawn = again
            do k = epoch + 1, 6
                do while (loader%next())
                    call scope%open()
                    loss = tp_mse_loss(net%forward(loader%field(0)), loader%field(1))
                    call adam%zero_grad()
                    again = scaler%scale(loss)
                    call again%backward()
                    call scaler%unscale(adam)
                    norm = tp_clip_grad_norm(net, 10.0)
                    call scaler%step(adam)
                    call scaler%update()
                    call scope%close()
                end do
                call schedule%step()
                if (start == 0) losses(k) = loss%item()
                if (start == 3) call expect(loss%item() == losses(k), "the same bits after the checkpoint")
                if (start == 0 .and. k == 3) then
                    call tp_generator_free(generator)
                    generator = tp_generator_new(4)
                    call tp_training_save("last.pt", net, adam, schedule, loader, epoch=k, step=3 * k, scaler=scaler, &
                        generator=generator)
                end if
            end do
            call scaler%free()
            call tp_generator_free(generator)
            call expect(abs(schedule%last_lr() - 0.0125d0) < 1d-9 .and. abs(adam%option("lr") - 0.0125d0) < 1d-9, "a schedule")
        end do
        call expect(loader%batches() == 3 .and. losses(6) < losses(1), "a training")
        call adam%set_option("lr", 1)
        call expect(adam%option("lr") == 1 .and. adam%option("beta1") == 0.8d0, "options of a group")
        call tp_save("named.npz", ["first ", "second"], [x, y])
        again = tp_zeros([20, 3])
        call tp_load("named.npz", ["first"], [again])
        call expect(tp_equal(x, again), "named tensors in a file")
    end subroutine

    function half_each(epoch) result(factor)
        integer, intent(in) :: epoch
        real(c_double) :: factor
        factor = 0.5d0**epoch
    end function
    subroutine add_one(self, x, y)
        type(tp_module), intent(in) :: self
        type(tp_tensor), intent(in) :: x
        type(tp_tensor), intent(inout) :: y
        call expect(self%defined() .and. x%numel() == 2, "what a hook is given")
        y = y + 1
    end subroutine
    subroutine twice(self, x)
        type(tp_module), intent(in) :: self
        type(tp_tensor), intent(inout) :: x
        call expect(self%defined(), "whose hook it is")
        x = 2 * x
    end subroutine

    subroutine callbacks()
        type(tp_tensor) :: x, y
        type(tp_optimiser) :: sgd
        type(tp_schedule) :: schedule, first
        type(tp_module) :: net
        integer(c_int64_t) :: before, after
        real(c_double) :: loss
        integer :: k
        w = tp_ones([2])
        call w%set_requires_grad()
        sgd = tp_sgd([w], lr=0.8d0)
        schedule = tp_lambda_lr(sgd, half_each)
        call schedule%step()
        call schedule%step()
        call expect(abs(sgd%option("lr") - 0.2d0) < 1d-12, "a rate by a function")

        sgd = tp_sgd([w], lr=1)
        first = tp_constant_lr(sgd, factor=0.5d0, total_iters=2)
        schedule = tp_sequential_lr(sgd, [first, tp_exponential_lr(sgd, gamma=0.1d0)], [2])
        call first%release()
        do k = 1, 3
            call schedule%step()
        end do
        call expect(abs(schedule%last_lr() - 0.1d0) < 1d-12, "one schedule after the other")
        sgd = tp_sgd([w], lr=1)
        schedule = tp_chained_scheduler([tp_exponential_lr(sgd, gamma=0.5d0), tp_exponential_lr(sgd, gamma=0.1d0)])
        call schedule%step()
        call expect(abs(schedule%last_lr() - 0.05d0) < 1d-12, "two schedules at once")
        schedule = tp_swa_lr(sgd, swa_lr=0.01d0, anneal_epochs=1)
        call expect(schedule%defined(), "SWALR")

        lbfgs = tp_lbfgs([w], lr=1)
        do k = 1, 5
            call tp_step_with(lbfgs, bowl, loss)
        end do
        x = tp_sum((w - 3)**2)
        call expect(x%item() < 1d-6, "LBFGS by a closure")
        call tp_check("callbacks")

        net = tp_nn_relu()
        x = tp_ones([2])
        after = tp_add_forward_hook(net, add_one)
        before = tp_add_prehook(net, twice)
        y = net%forward(x)
        call expect(tp_equal(y, tp_full([2], 3.0)), "hooks before and after a forward")
        call tp_remove_hook(net, before)
        call tp_remove_hook(net, after)
        y = net%forward(x)
        call expect(tp_equal(y, x), "hooks that were removed")
        call lbfgs%release()
        call w%release()
    end subroutine
    subroutine bowl(loss)
        type(tp_tensor), intent(inout) :: loss
        call lbfgs%zero_grad()
        loss = tp_sum((w - 3)**2)
        call loss%backward()
    end subroutine

    subroutine all_of_it()
        call operators()
        call refusals()
        call arrays()
        call gradients()
        call modules()
        call training()
        call scripts()
        call callbacks()
        call tp_free_temporaries()
    end subroutine
end module faces

program face
    use faces
    implicit none
    integer(c_int64_t) :: before
    call all_of_it()
    before = bytes()
    call all_of_it()
    call all_of_it()
    if (bytes() /= before) print "(a, i0, a)", "FAILED: ", bytes() - before, " bytes were left behind"
    if (failures == 0 .and. bytes() == before) print "(a)", "the Fortran module holds"
end program face
