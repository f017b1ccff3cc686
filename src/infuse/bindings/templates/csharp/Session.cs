using System;
using System.Threading;

namespace @SPACE@
{
    /// <summary>What the model takes. Null stands for the default of an optional input.</summary>
    public sealed class Inputs
    {
@INPUTS@    }

    /// <summary>What the model gives.</summary>
    public sealed class Outputs
    {
@OUTPUTS@    }

    /// <summary>A context of a model. It runs one call at a time; other threads wait.</summary>
    public sealed unsafe class Session : IDisposable
    {
        private readonly object gate = new object(), cancelling = new object();
        private readonly long[] frame = new long[@WORDS@ + 1];
        private readonly byte[] text = new byte[Model.TextBytes];
        private readonly Model model;
        private IntPtr context;

        internal Session(Model model, IntPtr context)
        {
            this.model = model;
            this.context = context;
        }

        ~Session()
        {
            Dispose();
        }

        /// <summary>The outputs for these inputs, in the memory of earlier ones where that suffices. ModelException where
        /// inputs do not fit, and where the run fails.</summary>
        public Outputs Run(Inputs inputs, Outputs outputs = null)
        {
            lock (gate)
            {
                if (context == IntPtr.Zero) throw new ObjectDisposedException("Session");
                outputs = outputs ?? new Outputs();
                Compute(inputs, outputs);
                return outputs;
            }
        }

        /// <summary>The same, until the token is cancelled: OperationCanceledException then.</summary>
        public Outputs Run(Inputs inputs, CancellationToken token)
        {
            token.ThrowIfCancellationRequested();
            lock (gate)
            {
                try
                {
                    using (token.Register(() => Cancel())) return Run(inputs);
                }
                catch (ModelException error) when (error.Code == ModelException.Cancelled && token.IsCancellationRequested)
                {
                    throw new OperationCanceledException(error.Message, token);
                }
                finally
                {
                    if (token.IsCancellationRequested) Cancel(false);
                }
            }
        }

        /// <summary>Ends the run that is under way, and later ones, until Cancel(false). Any thread may call it.</summary>
        public void Cancel(bool cancelled = true)
        {
            lock (cancelling)
                if (context != IntPtr.Zero) Native.Cancel(context, cancelled ? 1 : 0);
        }

        /// <summary>Frees the memory of the session, after a run that is under way.</summary>
        public void Dispose()
        {
            lock (gate)
            lock (cancelling)
            {
                if (context == IntPtr.Zero) return;
                Native.Close(context);
                context = IntPtr.Zero;
            }
            GC.SuppressFinalize(this);
            model.Release();
        }

        private void Compute(Inputs inputs, Outputs outputs)
        {
@DESCRIBED@
            int failed;
            fixed (long* f = frame)
            fixed (byte* t = text)
                failed = Native.Sizes(f, t);
            if (failed != 0) throw new ModelException(ModelException.BadInput, text);
@RESULTS@
            int code;
            fixed (long* f = frame)
@PINNED@
            {
@ASSIGNMENTS@
                code = Native.Run(context, f);
            }
            if (code != 0)
            {
                fixed (byte* t = text) Native.Error(context, t);
                throw new ModelException(code, text);
            }
            Collect(outputs);
        }

        /// <summary>Takes outputs whose sizes only the run has told.</summary>
        private void Collect(Outputs outputs)
        {
#pragma warning disable 168
            void* from;
            long[] sizes;
#pragma warning restore 168
@LATE@
        }

        private void* Result(int number, out long[] sizes)
        {
            var room = new long[Native.Rank(context, number) + 1];
            void* data;
            fixed (long* r = room) data = Native.Result(context, number, r);
            sizes = new long[room.Length - 1];
            Array.Copy(room, sizes, sizes.Length);
            return data;
        }

        private static void Copy(void* from, void* to, long bytes)
        {
            if (bytes > 0) Buffer.MemoryCopy(from, to, bytes, bytes);
        }

        private T[] Describe<T>(int at, int rank, Tensor<T> tensor) where T : struct
        {
            frame[at] = tensor == null ? -1 : tensor.Data.LongLength;
            if (tensor == null) return null;
            frame[at + 1] = tensor.Shape == null ? -1 : tensor.Shape.Length;
            if (tensor.Shape != null) Array.Copy(tensor.Shape, 0, frame, at + 2, Math.Min(rank, tensor.Shape.Length));
            return Elements(tensor.Data);
        }

        /// <summary>An array that has an address.</summary>
        private static T[] Elements<T>(T[] data)
        {
            return data.Length > 0 ? data : new T[1];
        }

        private static Tensor<T> Resized<T>(Tensor<T> before, long[] sizes, int at, int rank) where T : struct
        {
            bool same = before != null && before.Shape != null && before.Shape.Length == rank;
            for (int i = 0; i < rank && same; i++) same = before.Shape[i] == sizes[at + i];
            if (same) return before;
            var shape = new long[rank];
            Array.Copy(sizes, at, shape, 0, rank);
            return Tensor<T>.Zeros(shape);
        }
    }
}
