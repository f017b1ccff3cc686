using System;
using System.Runtime.InteropServices;
using System.Security;

namespace @SPACE@
{
    /// <summary>Functions of the library.</summary>
    [SuppressUnmanagedCodeSecurity]
    internal static unsafe class Native
    {
        private const string Library = "@NAME@";
        private const CallingConvention C = CallingConvention.Cdecl;

        [DllImport(Library, EntryPoint = "@P@_binding_load", CallingConvention = C)]
        internal static extern IntPtr Load(byte* path, byte* text);

        [DllImport(Library, EntryPoint = "@P@_binding_copied", CallingConvention = C)]
        internal static extern IntPtr Copied(byte* data, long bytes, byte* text);

        [DllImport(Library, EntryPoint = "@P@_binding_unload", CallingConvention = C)]
        internal static extern void Unload(IntPtr loaded);

        [DllImport(Library, EntryPoint = "@P@_binding_open", CallingConvention = C)]
        internal static extern int Open(IntPtr loaded, int threads, long id, out IntPtr context, byte* text);

        [DllImport(Library, EntryPoint = "@P@_binding_close", CallingConvention = C)]
        internal static extern void Close(IntPtr context);

        [DllImport(Library, EntryPoint = "@P@_binding_cancel", CallingConvention = C)]
        internal static extern void Cancel(IntPtr context, int cancelled);

        [DllImport(Library, EntryPoint = "@P@_binding_sizes", CallingConvention = C)]
        internal static extern int Sizes(long* frame, byte* text);

        [DllImport(Library, EntryPoint = "@P@_binding_shapes", CallingConvention = C)]
        internal static extern int Shapes(long* frame, byte* text);

        [DllImport(Library, EntryPoint = "@P@_binding_run", CallingConvention = C)]
        internal static extern int Run(IntPtr context, long* frame);

        [DllImport(Library, EntryPoint = "@P@_binding_error_text", CallingConvention = C)]
        internal static extern void Error(IntPtr context, byte* text);

        [DllImport(Library, EntryPoint = "@P@_binding_rank", CallingConvention = C)]
        internal static extern long Rank(IntPtr context, int number);

        [DllImport(Library, EntryPoint = "@P@_binding_result", CallingConvention = C)]
        internal static extern void* Result(IntPtr context, int number, long* sizes);
    }
}
