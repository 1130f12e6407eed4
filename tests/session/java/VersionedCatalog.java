package altneu.tests;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Tables of this process, {@code (id BIGINT, v STRING)}, whose catalog tells their changes, as Delta's and Iceberg's do:
 * version n is the n-th call of {@code commit}, n seconds after 1970 began. A row that a version rewrites unchanged is told as deleted and inserted.
 */
public final class VersionedCatalog implements TableCatalog {
    private static final Map<String, List<List<Object[]>>> TABLES = new ConcurrentHashMap<>();
    private String name;

    /** A version: texts "kind|id|v", where kind is one of Spark's types of changes. */
    public static void commit(String table, List<String> changes) {
        List<Object[]> rows = new ArrayList<>();
        for (String change : changes) {
            String[] parts = change.split("\\|", -1);
            UTF8String v = parts[2].equals("NULL") ? null : UTF8String.fromString(parts[2]);
            rows.add(new Object[] {Long.valueOf(parts[1]), v, UTF8String.fromString(parts[0])});
        }
        TABLES.computeIfAbsent(table, t -> new ArrayList<>()).add(rows);
    }

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listTables(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public Table loadTable(Identifier table) throws NoSuchTableException {
        throw new NoSuchTableException(table);
    }

    @Override
    public Changelog loadChangelog(Identifier table, ChangelogContext context, CaseInsensitiveStringMap options)
            throws NoSuchTableException {
        if (!TABLES.containsKey(table.name())) {
            throw new NoSuchTableException(table);
        }
        long first = 0, last = Long.MAX_VALUE;
        if (context.range() instanceof ChangelogRange.VersionRange range) {
            first = Long.parseLong(range.startingVersion()) + (range.startingBoundInclusive() ? 0 : 1);
            last = range.endingVersion().map(Long::parseLong).orElse(Long.MAX_VALUE);
        } else if (context.range() instanceof ChangelogRange.TimestampRange range) {
            first = (range.startingTimestamp() + 999_999L) / 1_000_000L;
        }
        return new Changes(table.name(), first, last);
    }

    @Override
    public Table alterTable(Identifier table, TableChange... changes) {
        throw new UnsupportedOperationException();
    }

    @Override
    public boolean dropTable(Identifier table) {
        return TABLES.remove(table.name()) != null;
    }

    @Override
    public void renameTable(Identifier from, Identifier to) {
        throw new UnsupportedOperationException();
    }

    private record Changes(String table, long first, long last) implements Changelog, ScanBuilder, Scan {
        private static final Column[] COLUMNS = {
            Column.create("id", DataTypes.LongType),
            Column.create("v", DataTypes.StringType),
            Column.create("_change_type", DataTypes.StringType, false),
            Column.create("_commit_version", DataTypes.LongType, false),
            Column.create("_commit_timestamp", DataTypes.TimestampType, false),
        };

        @Override
        public String name() {
            return table;
        }

        @Override
        public Column[] columns() {
            Column[] result = COLUMNS.clone();
            if (table.equals("counted")) {
                result[1] = Column.create("_diff", DataTypes.StringType);
            }
            return result;
        }

        @Override
        public boolean containsCarryoverRows() {
            return true;
        }

        @Override
        public boolean containsIntermediateChanges() {
            return true;
        }

        @Override
        public boolean representsUpdateAsDeleteAndInsert() {
            return true;
        }

        @Override
        public org.apache.spark.sql.connector.expressions.NamedReference[] rowId() {
            return new org.apache.spark.sql.connector.expressions.NamedReference[] {
                org.apache.spark.sql.connector.expressions.Expressions.column("id")
            };
        }

        @Override
        public org.apache.spark.sql.connector.expressions.NamedReference rowVersion() {
            return org.apache.spark.sql.connector.expressions.Expressions.column("_commit_version");
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return this;
        }

        @Override
        public Scan build() {
            return this;
        }

        @Override
        public StructType readSchema() {
            StructType result = new StructType();
            for (Column column : columns()) {
                result = result.add(column.name(), column.dataType(), column.nullable());
            }
            return result;
        }

        @Override
        public Batch toBatch() {
            long end = Math.min(last + (last == Long.MAX_VALUE ? 0 : 1), TABLES.get(table).size());
            return new Batch() {
                @Override
                public InputPartition[] planInputPartitions() {
                    return parts(first, end);
                }

                @Override
                public PartitionReaderFactory createReaderFactory() {
                    return new Readers();
                }
            };
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return new MicroBatchStream() {
                @Override
                public Offset initialOffset() {
                    return new Version(first);
                }

                @Override
                public Offset latestOffset() {
                    return new Version(TABLES.get(table).size());
                }

                @Override
                public Offset deserializeOffset(String json) {
                    return new Version(Long.parseLong(json));
                }

                @Override
                public InputPartition[] planInputPartitions(Offset start, Offset end) {
                    return parts(((Version) start).number, ((Version) end).number);
                }

                @Override
                public PartitionReaderFactory createReaderFactory() {
                    return new Readers();
                }

                @Override
                public void commit(Offset end) {}

                @Override
                public void stop() {}
            };
        }

        private InputPartition[] parts(long from, long to) {
            List<InputPartition> result = new ArrayList<>();
            for (long version = from; version < to; version++) {
                List<Object[]> rows = new ArrayList<>();
                for (Object[] row : TABLES.get(table).get((int) version)) {
                    rows.add(new Object[] {row[0], row[1], row[2], version, 1_000_000L * version});
                }
                result.add(new Part(rows));
            }
            return result.toArray(new InputPartition[0]);
        }
    }

    private static final class Version extends Offset {
        private final long number;

        private Version(long number) {
            this.number = number;
        }

        @Override
        public String json() {
            return Long.toString(number);
        }
    }

    private record Part(List<Object[]> rows) implements InputPartition {}

    private static final class Readers implements PartitionReaderFactory {
        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            List<Object[]> rows = ((Part) partition).rows();
            return new PartitionReader<>() {
                private int at = -1;

                @Override
                public boolean next() {
                    return ++at < rows.size();
                }

                @Override
                public InternalRow get() {
                    return new GenericInternalRow(rows.get(at));
                }

                @Override
                public void close() {}
            };
        }
    }
}
