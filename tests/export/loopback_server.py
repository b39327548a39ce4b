"""A server of one export over gRPC, with TensorFlow Serving's protos: what tests put under load.

    python loopback_server.py DIRECTORY LIBRARY ...

TensorFlow loads the export and the libraries of ops; neither Keras nor this package is imported.
Prints its port; ends with its standard input.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class Server(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers `Predict`; what cannot be answered is an invalid argument."""

    def __init__(self, directory):
        self.loaded = tf.saved_model.load(directory)

    def Predict(self, request, context):  # noqa: N802 - the service's name
        """Run the signature that the request names."""
        response = predict_pb2.PredictResponse()
        try:
            name = request.model_spec.signature_name or "serving_default"
            signature = self.loaded.signatures[name]
            specs = signature.structured_input_signature[1]
            if set(request.inputs) != set(specs):
                raise ValueError(f"inputs {sorted(request.inputs)}, expected {sorted(specs)}")
            fed = {
                key: tf.constant(tf.make_ndarray(value), specs[key].dtype)
                for key, value in request.inputs.items()
            }
            for key, value in signature(**fed).items():
                response.outputs[key].CopyFrom(tf.make_tensor_proto(value.numpy()))
        except (KeyError, TypeError, ValueError, tf.errors.OpError) as error:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"{type(error).__name__}: {error}"[:500]
            )
        return response


def main():
    """Serve until the standard input ends."""
    directory, *libraries = sys.argv[1:]
    for library in libraries:
        tf.load_op_library(library)
    server = grpc.server(ThreadPoolExecutor(4))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Server(directory), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    main()
