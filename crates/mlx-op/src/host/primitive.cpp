// A lazy MLX node whose evaluation calls back into Rust. See mod.rs for the other half.
//
// No exception leaves an extern "C" function, and no Rust panic enters C++: the callback catches
// its own and reports a message instead.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "mlx/allocator.h"
#include "mlx/array.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/c/private/array.h"
#include "mlx/c/private/enums.h"
#include "mlx/c/private/stream.h"
#include "mlx/primitives.h"

namespace mx = mlx::core;

extern "C" {

// One operand as Rust sees it. `strides` count elements; an output is always row-contiguous.
struct mlx_op_tensor {
  void* data;
  const int32_t* shape;
  const int64_t* strides;
  size_t rank;
  mlx_dtype dtype;
};

// Returns null, or a message that the caller frees with free().
typedef char* (*mlx_op_call)(
    void* context,
    const mlx_op_tensor* inputs,
    size_t input_count,
    const mlx_op_tensor* outputs,
    size_t output_count);

typedef void (*mlx_op_drop)(void* context);
}

namespace {

// The Rust closure, dropped exactly once, when the node and every scheduled run of it are gone.
class Closure {
 public:
  Closure(void* context, mlx_op_call call, mlx_op_drop drop) : context_(context), call_(call), drop_(drop) {}
  Closure(const Closure&) = delete;
  Closure& operator=(const Closure&) = delete;
  ~Closure() {
    drop_(context_);
  }

  void run(const std::vector<mlx_op_tensor>& inputs, const std::vector<mlx_op_tensor>& outputs) const {
    char* message = call_(context_, inputs.data(), inputs.size(), outputs.data(), outputs.size());
    if (message != nullptr) {
      std::string text(message);
      std::free(message);
      throw std::runtime_error(text);
    }
  }

 private:
  void* context_;
  mlx_op_call call_;
  mlx_op_drop drop_;
};

class HostPrimitive : public mx::Primitive {
 public:
  HostPrimitive(mx::Stream stream, std::string name, size_t updated, std::shared_ptr<const Closure> closure)
      : Primitive(stream), name_(std::move(name)), updated_(updated), closure_(std::move(closure)) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    auto& encoder = mx::cpu::get_command_encoder(stream());
    const size_t first_updated = inputs.size() - updated_;
    if (updated_ > 0) {
      release_siblings_inputs(inputs, outputs);
    }
    for (size_t i = 0; i < outputs.size(); i++) {
      auto& output = outputs[i];
      if (i < updated_ && takes_over(inputs[first_updated + i])) {
        output.copy_shared_buffer(inputs[first_updated + i]);
      } else {
        output.set_data(mx::allocator::malloc(output.nbytes()));
      }
      encoder.set_output_array(output);
    }
    // MLX keeps the buffers of both alive until the stream has run the task; the copies here keep
    // shapes and strides, and share no ownership that would stop a buffer from being donated later.
    std::vector<mx::array> ins, outs;
    for (const auto& input : inputs) {
      encoder.set_input_array(input);
      ins.push_back(mx::array::unsafe_weak_copy(input));
    }
    for (const auto& output : outputs) {
      outs.push_back(mx::array::unsafe_weak_copy(output));
    }
    encoder.dispatch([closure = closure_, ins = std::move(ins), outs = std::move(outs)]() mutable {
      closure->run(tensors(ins), tensors(outs));
    });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("[" + name_ + "] is a host operation: it runs on a CPU stream only");
  }

  const char* name() const override {
    return name_.c_str();
  }

 private:
  // Each output of a node holds the inputs, so that none could be taken over. They have served once the
  // node runs, and MLX drops them all after it; a graph that is being traced keeps them.
  static void release_siblings_inputs(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) {
    for (auto& output : outputs) {
      if (&output.inputs() != &inputs && !output.is_tracer()) {
        output.inputs().clear();
      }
    }
  }

  // Whether nobody else can see the array, so that an output may have its buffer.
  static bool takes_over(const mx::array& input) {
    return input.is_donatable() && input.flags().row_contiguous && input.data_size() == input.size();
  }

  static std::vector<mlx_op_tensor> tensors(std::vector<mx::array>& arrays) {
    std::vector<mlx_op_tensor> result;
    result.reserve(arrays.size());
    for (auto& array : arrays) {
      result.push_back({array.data<void>(),
                        array.shape().data(),
                        array.strides().data(),
                        array.ndim(),
                        mlx_dtype_to_c(array.dtype())});
    }
    return result;
  }

  std::string name_;
  // The last inputs that the first outputs begin as the contents of.
  size_t updated_;
  std::shared_ptr<const Closure> closure_;
};

} // namespace

extern "C" {

// Adds a node. `shapes` holds the outputs' dimensions one after the other, `ranks` how many each
// has; `results` are empty arrays to be set. The first `updated` outputs have the shapes and types of
// the last `updated` inputs, and their buffers where nobody else holds those. Takes ownership of `context` in every case. Returns
// null, or a message that the caller frees with free().
char* mlx_op_host_apply(
    const char* name,
    const mlx_array* inputs,
    size_t input_count,
    const int32_t* shapes,
    const size_t* ranks,
    const mlx_dtype* dtypes,
    size_t output_count,
    size_t updated,
    void* context,
    mlx_op_call call,
    mlx_op_drop drop,
    mlx_stream stream,
    mlx_array* results) {
  try {
    auto closure = std::make_shared<const Closure>(context, call, drop);
    std::vector<mx::array> ins;
    for (size_t i = 0; i < input_count; i++) {
      ins.push_back(mlx_array_get_(inputs[i]));
    }
    std::vector<mx::Shape> out_shapes;
    std::vector<mx::Dtype> out_dtypes;
    for (size_t i = 0; i < output_count; i++) {
      out_shapes.emplace_back(shapes, shapes + ranks[i]);
      shapes += ranks[i];
      out_dtypes.push_back(mlx_dtype_to_cpp(dtypes[i]));
    }
    auto primitive = std::make_shared<HostPrimitive>(mlx_stream_get_(stream), name, updated, std::move(closure));
    auto outs = mx::array::make_arrays(std::move(out_shapes), out_dtypes, primitive, ins);
    for (size_t i = 0; i < output_count; i++) {
      mlx_array_set_(results[i], std::move(outs[i]));
    }
    return nullptr;
  } catch (const std::exception& error) {
    return strdup(error.what());
  }
}

void mlx_op_free_message(char* message) {
  std::free(message);
}

// Allocates with the allocator that run() and mlx_op_free_message() release with.
char* mlx_op_copy_message(const char* text, size_t length) {
  char* copy = static_cast<char*>(std::malloc(length + 1));
  if (copy != nullptr) {
    std::memcpy(copy, text, length);
    copy[length] = 0;
  }
  return copy;
}
}
