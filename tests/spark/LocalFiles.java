package quick;

import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's file system for local files, which asks Java for what Hadoop starts programs for.
 *
 * Without Hadoop's native library, every file that Spark writes to a checkpoint starts `chmod`, and every rename
 * starts `readlink` twice: a batch takes a dozen processes.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    /** The same files for `FileContext`, which checkpoints use. */
    public static class OfContext extends ChecksumFs {
        public OfContext(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(new RawOfContext(configuration));
        }
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
            } else {
                Files.setPosixFilePermissions(
                    this.pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            }
        }

        public FileStatus getFileLinkStatus(Path path) throws IOException {
            File file = this.pathToFile(path);
            return Files.isSymbolicLink(file.toPath()) ? super.getFileLinkStatus(path) : this.getFileStatus(path);
        }
    }

    public static class RawOfContext extends DelegateToFileSystem {
        public RawOfContext(Configuration configuration) throws IOException, URISyntaxException {
            super(FsConstants.LOCAL_FS_URI, new Raw(), configuration, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        public int getUriDefaultPort() {
            return -1;
        }

        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public boolean isValidName(String name) {
            return true;
        }
    }
}
